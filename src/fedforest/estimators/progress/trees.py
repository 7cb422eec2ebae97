"""The progress of a training that grows trees on several threads at once."""

from collections.abc import Callable
from threading import Lock

from fedforest.tree.growth.level_loop import GrowthProgress


class TreeProgress:
    """Puts the reports of all threads together; its listener hears one at a time.

    The number of trees done never falls, nor does the level until the number rises.
    """

    def __init__(self, trees_total: int, listener: Callable[[GrowthProgress], None] | None) -> None:
        self._total = trees_total
        self._listener = listener
        self._done = 0
        self._underway: dict[range, tuple[int, int]] = {}  # level and open nodes
        self._lock = Lock()

    def hear(self, trees: range, level: int, open_nodes: int) -> None:
        """These trees are at this level, or done if no node is open."""
        if self._listener is None:
            return
        with self._lock:
            if open_nodes:
                self._underway[trees] = (level, open_nodes)
            else:
                self._underway.pop(trees, None)  # single leaves were never under way
                self._done += len(trees)
            deepest = max((level for level, _ in self._underway.values()), default=0)
            n_open = sum(n for _, n in self._underway.values())
            self._listener(GrowthProgress(self._done, self._total, deepest, n_open))
