"""Trees grown side by side are those grown together, and an error stops all of them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.tree.forest.forest import concatenate_forests
from fedforest.tree.growth import side_by_side
from fedforest.tree.growth.level_loop import GrownBatch
from fedforest.tree.growth.side_by_side import (
    BLOCKS_PER_WORKER,
    BlockReport,
    divide_trees,
    grow_side_by_side,
)
from fedforest.tree.workers import Workers
from tests.tree.growth.test_level_loop import Case, assert_same_forest, large_case

DEADLINE_SECONDS = 300


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Workers]:
    with ThreadPoolExecutor(1) as executor:
        yield Workers(executor, 2)


def grow(case: Case, workers: Workers, report: BlockReport) -> list[GrownBatch]:
    columns = case.table.columns()
    return grow_side_by_side(columns, case.targets, case.plan, case.trees, workers, report)


def ignore(_trees: range, _level: int, _open_nodes: int) -> None:
    """Nobody listens."""


@given(st.integers(0, 9), st.integers(1, 300), st.integers(1, 20))
def test_blocks_are_consecutive_and_as_even_as_can_be(
    first: int, n_trees: int, n_workers: int
) -> None:
    trees = range(first, first + n_trees)
    blocks = divide_trees(trees, n_workers)
    assert [tree for block in blocks for tree in block] == list(trees)
    sizes = [len(block) for block in blocks]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    if n_workers > 1 and n_trees >= 2 * n_workers:
        assert len(blocks) == min(n_trees, BLOCKS_PER_WORKER * n_workers)
    else:
        assert blocks == [trees], "with so few trees, some workers would have none for long"


@pytest.mark.parametrize("task", ["gini", "entropy", "weighted", "regression"])
def test_the_forest_is_the_one_grown_together(task: str, two_workers: Workers) -> None:
    case = large_case(task)
    together = case.grow()
    blocks = grow(case, two_workers, ignore)
    assert len(blocks) == len(divide_trees(case.trees, 2)) > 1
    assert_same_forest(concatenate_forests([block.forest for block in blocks]), together.forest)
    leaves = np.concatenate([block.left_out_leaves for block in blocks])
    np.testing.assert_array_equal(leaves, together.left_out_leaves)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_every_block_reports_its_levels_in_turn_and_then_that_it_is_done(count: int) -> None:
    case = large_case()
    heard: dict[range, list[tuple[int, int]]] = {}

    def listen(trees: range, level: int, open_nodes: int) -> None:
        heard.setdefault(trees, []).append((level, open_nodes))

    with ThreadPoolExecutor(1) as executor:
        grow(case, Workers(executor, count), listen)
    assert sorted(heard, key=min) == divide_trees(case.trees, count)
    for trees, reports in heard.items():
        assert reports[0] == (0, len(trees))
        assert [level for level, _ in reports[:-1]] == list(range(len(reports) - 1))
        assert all(open_nodes > 0 for _, open_nodes in reports[:-1])
        assert reports[-1] == (0, 0)


@pytest.mark.parametrize("is_caller", [True, False])
@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_after_an_error_on_one_thread_no_other_trees_are_finished_or_begun(
    is_caller: bool,
    error: type[BaseException],
    two_workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_by_side, "BLOCKS_PER_WORKER", 2)  # so that some wait to be begun
    caller = threading.get_ident()
    both_grow = threading.Barrier(2, timeout=DEADLINE_SECONDS)
    failed = threading.Event()
    begun: set[range] = set()
    done: set[range] = set()

    def fail_on_one_thread(trees: range, level: int, open_nodes: int) -> None:
        (begun if open_nodes else done).add(trees)
        if level != 1:
            return
        both_grow.wait()
        if (threading.get_ident() == caller) == is_caller:
            failed.set()
            raise error
        assert failed.wait(DEADLINE_SECONDS)

    case = large_case()
    with pytest.raises(error):
        grow(case, two_workers, fail_on_one_thread)
    assert len(begun) == 2 < len(divide_trees(case.trees, 2))
    assert not done
