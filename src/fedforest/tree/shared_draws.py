"""Rows drawn once for all who live in one process.

How often a tree draws each row follows from its seed, so whoever comes first can draw for the
others. A party that is alone in its process has nobody to share with and draws all trees itself.
Threads meet here without locks: what they share changes by single steps of deques and dictionaries.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.uint8]  # how often each row was drawn; once it is shared, nobody writes to it
Draw = Callable[[int], Counts]  # of a tree


class BatchDraws:
    """What the trees of one batch drew; everybody takes every tree."""

    def __init__(self, n_trees: int, n_sharers: int) -> None:
        self.awaited = deque(range(n_sharers - 1))  # one for each that has not joined, but the last
        self._waiting = deque(range(n_trees))
        self._drawn: dict[int, Counts] = {}

    def draw_next(self, draw: Draw) -> Iterator[tuple[int, Counts]]:
        """Trees that nobody else has begun with, as long as there are any."""
        while self._waiting:
            try:
                tree = self._waiting.popleft()
            except IndexError:  # another thread was faster
                return
            counts = self._drawn[tree] = draw(tree)
            yield tree, counts

    def find(self, tree: int, draw: Draw) -> Counts:
        """What a tree drew; if whoever began with it is not done yet, nobody waits."""
        counts = self._drawn.get(tree)
        return draw(tree) if counts is None else counts


class SharedDraws:
    """Brings together those who start the same trees; keeps one batch at most."""

    def __init__(self, n_sharers: int) -> None:
        self._n_sharers = n_sharers
        self._batches: dict[Hashable, BatchDraws] = {}

    def invite(self) -> None:
        """Expect one more to join every batch from now on."""
        self._n_sharers += 1

    def join(self, key: Hashable, n_trees: int) -> BatchDraws:
        """The batch of those who say the same key, which must tell all that draws depend on.

        It is let go when the last has joined, or when somebody starts other trees.
        """
        for other in [other for other in self._batches.copy() if other != key]:
            self._batches.pop(other, None)
        batch = self._batches.setdefault(key, BatchDraws(n_trees, self._n_sharers))
        try:
            batch.awaited.pop()
        except IndexError:
            self._batches.pop(key, None)
        return batch
