"""Parallelism as an argument: ranges of work, run by the caller and by threads it was given."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

RANGES_PER_WORKER = 4  # more ranges than workers: a slow thread does not hold up a level
ROWS_WORTH_A_THREAD = 4096

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workers:
    """`count` workers: the calling thread and `count - 1` tasks on the executor."""

    executor: Executor | None = None
    count: int = 1

    def run(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Call `work` on every item, each once, in any order; after an error, on no further one.

        Raises the error of the calling thread, else the first of the others. `work` may call `run`
        on the same executor: `run` never waits for a task that no thread has begun.
        """
        if self.executor is None or self.count <= 1:
            for item in items:
                work(item)
            return
        waiting = deque(items)
        if len(waiting) <= 1:
            _drain(waiting, work)
            return
        submit, n_others = self.executor.submit, min(self.count, len(waiting)) - 1
        others: list[Future[None]] = []
        try:
            others.extend(submit(_drain, waiting, work) for _ in range(n_others))
            _drain(waiting, work)
        finally:
            begun = [other for other in others if not other.cancel()]
            wait(begun)  # they may still write into the caller's arrays
        for other in begun:
            other.result()

    def if_worth(self, size: int, least: int) -> "Workers":
        """Return these workers, or the calling thread alone for work smaller than `least`."""
        return self if size >= least else ALONE

    def divided(self, n_parts: int) -> "Workers":
        """Return the workers for each of `n_parts` that work at the same time."""
        return Workers(self.executor, max(1, self.count // max(1, n_parts)))

    def ranges(
        self, costs: NDArray[np.int64], least: int = ROWS_WORTH_A_THREAD
    ) -> list[tuple[int, int]]:
        """Divide into consecutive ranges of about equal cost; one if all cost less than `least`."""
        total = int(costs.sum()) if self.count > 1 else 0
        n_ranges = self.count * RANGES_PER_WORKER
        if self.count <= 1 or total < least or len(costs) < 2:
            return [(0, len(costs))]
        ends = np.cumsum(costs)
        cuts = np.searchsorted(ends, total * np.arange(1, n_ranges) / n_ranges, side="left") + 1
        bounds = sorted({0, len(costs), *(int(cut) for cut in cuts if cut < len(costs))})
        return list(pairwise(bounds))


ALONE = Workers()  # the calling thread only


def _drain(waiting: deque[T], work: Callable[[T], object]) -> None:
    """Work until nothing is waiting; threads share the queue, whose `popleft` is atomic."""
    try:
        while waiting:
            try:
                item = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            work(item)
    except BaseException:  # Ctrl-C too: stop the other threads, then raise again
        waiting.clear()
        raise
