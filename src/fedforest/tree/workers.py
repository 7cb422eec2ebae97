"""Parallelism as an argument: ranges of work, run by the caller and by threads it was given."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
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
        """Call `work` on every item, each exactly once, in any order; re-raise its errors."""
        waiting = iter(list(items))
        if self.executor is None or self.count <= 1:
            _drain(waiting, work)
            return
        others = [self.executor.submit(_drain, waiting, work) for _ in range(self.count - 1)]
        try:
            _drain(waiting, work)
        finally:
            for other in others:
                other.result()

    def ranges(self, costs: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Consecutive ranges of about equal cost; one range where threads would not pay."""
        total = int(costs.sum())
        n_ranges = self.count * RANGES_PER_WORKER
        if self.count <= 1 or total < ROWS_WORTH_A_THREAD or len(costs) < 2:
            return [(0, len(costs))]
        ends = np.cumsum(costs)
        cuts = np.searchsorted(ends, total * np.arange(1, n_ranges) / n_ranges, side="left") + 1
        bounds = sorted({0, len(costs), *(int(cut) for cut in cuts if cut < len(costs))})
        return list(zip(bounds[:-1], bounds[1:], strict=True))


def _drain(waiting: Iterator[T], work: Callable[[T], object]) -> None:
    # threads share one list iterator; its `next` is atomic
    for item in waiting:
        work(item)
