"""Work is shared out in ranges, done once, and its errors are heard."""

import threading
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


@pytest.mark.parametrize("count", [1, 2, 3])
def test_after_an_error_nothing_further_is_begun(count: int) -> None:
    done: list[int] = []

    def fail_at_once(item: int) -> None:
        done.append(item)
        raise KeyError(item)

    with ThreadPoolExecutor(2) as executor, pytest.raises(KeyError):
        Workers(executor, count).run(fail_at_once, range(100))
    assert len(done) <= count


def test_the_error_of_another_thread_is_raised_and_empties_the_queue() -> None:
    caller, failed = threading.get_ident(), threading.Event()
    done_by_caller: list[int] = []

    def fail_elsewhere(item: int) -> None:
        if threading.get_ident() != caller:
            failed.set()
            raise KeyError(item)
        done_by_caller.append(item)
        assert failed.wait(timeout=60)

    with ThreadPoolExecutor(1) as executor, pytest.raises(KeyError):
        Workers(executor, 2).run(fail_elsewhere, range(100_000))
    assert len(done_by_caller) < 100_000


def test_an_error_is_raised_only_when_no_thread_works_any_more() -> None:
    caller, begun, failing = threading.get_ident(), threading.Event(), threading.Event()
    finished: list[int] = []

    def work(item: int) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(timeout=60)
            failing.set()
            raise KeyError(item)
        begun.set()
        assert failing.wait(timeout=60)
        finished.append(item)

    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(KeyError):
            Workers(executor, 2).run(work, range(2))
        assert len(finished) == 1


def test_nobody_waits_for_a_task_that_no_thread_has_begun() -> None:
    done: list[int] = []
    free = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        occupied = executor.submit(free.wait, 60)
        Workers(executor, 3).run(done.append, range(10))
        assert not occupied.done()
        free.set()
    assert done == list(range(10))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_work_may_share_out_work_of_its_own(n_threads: int) -> None:
    done: list[tuple[int, int, int]] = []
    with ThreadPoolExecutor(n_threads) as executor:
        workers = Workers(executor, 4)

        def inner(first: int, second: int) -> None:
            workers.run(lambda third: done.append((first, second, third)), range(5))

        def outer(first: int) -> None:
            workers.run(lambda second: inner(first, second), range(5))

        workers.run(outer, range(5))
    assert Counter(done) == Counter(np.ndindex(5, 5, 5))


def test_an_executor_that_was_shut_down_is_an_error_and_nothing_is_lost_in_silence() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    done: list[int] = []
    with pytest.raises(RuntimeError, match="shutdown"):
        Workers(executor, 2).run(done.append, range(5))
    assert done == []


def test_an_index_error_in_the_work_is_not_mistaken_for_the_end_of_it() -> None:
    def fail(item: int) -> None:
        raise IndexError(item)

    with pytest.raises(IndexError):
        Workers().run(fail, range(3))
