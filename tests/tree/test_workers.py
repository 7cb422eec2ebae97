"""Work is shared out in ranges, done once, and its errors are heard."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.tree.workers import Workers


@given(st.lists(st.integers(0, 5000), max_size=60), st.integers(1, 5))
def test_ranges_cover_everything_once_and_in_order(costs: list[int], count: int) -> None:
    ranges = Workers(None, count).ranges(np.array(costs, np.int64))
    assert [i for first, last in ranges for i in range(first, last)] == list(range(len(costs)))


def test_ranges_cost_about_the_same() -> None:
    costs = np.array([1000, 10, 10, 500, 500, 2000, 1, 1, 1, 1, 1976, 2000], np.int64)
    ranges = Workers(None, 2).ranges(costs)
    assert len(ranges) > 2
    assert max(costs[first:last].sum() for first, last in ranges) <= 2 * costs.max()


def test_little_work_is_one_range() -> None:
    assert Workers(None, 4).ranges(np.full(10, 100)) == [(0, 10)]
    assert Workers(None, 1).ranges(np.full(10, 10**6)) == [(0, 10)]
    assert len(Workers(None, 4).ranges(np.full(10, 10**6))) > 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_item_is_worked_on_once(count: int) -> None:
    done: list[int] = []
    with ThreadPoolExecutor(2) as executor:
        Workers(executor, count).run(done.append, iter(range(500)))
    assert Counter(done) == Counter(range(500))


def test_more_workers_than_threads_still_finish() -> None:
    done: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        Workers(executor, 8).run(done.append, range(100))
    assert sorted(done) == list(range(100))


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_in_the_work_is_raised(count: int) -> None:
    def fail(item: int) -> None:
        if item == 70:
            raise KeyError(item)

    with ThreadPoolExecutor(1) as executor, pytest.raises(KeyError):
        Workers(executor, count).run(fail, range(100))
