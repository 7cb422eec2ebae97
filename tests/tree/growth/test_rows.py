"""Row samples of trees: which rows they hold, and how wide an entry has to be."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.tree.growth.rows import NodeRows, Sampling, bits_for_rows, draw_rows, entry_type
from fedforest.tree.growth.seeds import derive_seeds
from fedforest.tree.table.targets import TrainingTargets, classification_targets, regression_targets
from fedforest.tree.workers import Workers
from tests.reference import draws as reference

ALONE = Workers()


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Workers]:
    executor: Executor
    with ThreadPoolExecutor(1) as executor:
        yield Workers(executor, 2)


def unpack(rows: NodeRows) -> list[list[tuple[int, int, int]]]:
    """(row, multiplicity, class) of the rows of every node."""
    order = rows.order
    row_bits = int(order.row_bits)
    nodes = []
    for start, stop in zip(order.start.tolist(), order.stop.tolist(), strict=True):
        entries = order.entries[start:stop].tolist()
        nodes.append(
            [(e % 2**row_bits, (e >> row_bits) % 16, e >> (row_bits + 4)) for e in entries]
        )
    return nodes


def weighted_targets(weights: list[int], classes: list[int]) -> TrainingTargets:
    return classification_targets(np.array(classes), 5, np.array(weights, np.float64))


@given(st.integers(1, 60), st.integers(0, 2**63 - 1), st.booleans(), st.data())
@settings(max_examples=60)
def test_every_tree_holds_its_sample_and_leaves_out_the_others(
    n_rows: int, seed: int, bootstrap: bool, data: st.DataObject
) -> None:
    sampling = Sampling(bootstrap, data.draw(st.integers(1, n_rows)))
    classes = data.draw(st.lists(st.integers(0, 4), min_size=n_rows, max_size=n_rows))
    seeds = derive_seeds(seed, "rows", 0, 3)
    targets = classification_targets(np.array(classes), 5)
    rows, left_out = draw_rows(seeds, targets, sampling, ALONE, with_left_out=True)
    assert left_out is not None
    draw = reference.count_draws if bootstrap else reference.choose_rows
    for tree, key in enumerate(seeds.tolist()):
        times = draw(key, sampling.n_draws, n_rows)
        expected = [(row, times[row], classes[row]) for row in range(n_rows) if times[row]]
        assert unpack(rows)[tree] == expected
        absent = [(row, 0, 0) for row in range(n_rows) if not times[row]]
        assert unpack(left_out)[tree] == absent


def test_rows_without_weight_are_neither_drawn_nor_left_out() -> None:
    targets = weighted_targets([0, 1, 0, 1, 1, 1], [0, 1, 2, 3, 4, 0])
    seeds = derive_seeds(1, "rows", 0, 20)
    sampling = Sampling(bootstrap=True, n_draws=6)
    rows, left_out = draw_rows(seeds, targets, sampling, ALONE, with_left_out=True)
    assert left_out is not None
    for drawn, absent in zip(unpack(rows), unpack(left_out), strict=True):
        assert sorted(row for row, _, _ in drawn + absent) == [1, 3, 4, 5]


def test_a_tree_that_drew_only_rows_without_weight_gets_all_others() -> None:
    targets = weighted_targets([0] * 50 + [1, 2], [1] * 52)
    seeds = derive_seeds(1, "rows", 0, 20)
    rows, _ = draw_rows(seeds, targets, Sampling(bootstrap=True, n_draws=1), ALONE)
    samples = unpack(rows)
    assert [(50, 1, 1), (51, 1, 1)] in samples
    assert all(samples), "no tree is without rows"


def test_threads_draw_the_same_rows(two_workers: Workers) -> None:
    targets = regression_targets(np.arange(3000.0))
    seeds = derive_seeds(9, "rows", 0, 7)
    sampling = Sampling(bootstrap=True, n_draws=3000)
    one, _ = draw_rows(seeds, targets, sampling, ALONE)
    other, _ = draw_rows(seeds, targets, sampling, two_workers)
    assert unpack(one) == unpack(other)  # what lies between the trees' rows is nobody's


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "expected"),
    [
        (1, 2, np.uint32),
        (2**27, 2, np.uint32),
        (2**27 + 1, 2, np.uint64),
        (2**28, 0, np.uint32),
        (2**28, 1, np.uint32),
        (2**28 + 1, 0, np.uint64),
        (2**18, 1000, np.uint32),
        (2**18 + 1, 1000, np.uint64),
    ],
)
def test_an_entry_is_as_wide_as_row_multiplicity_and_class_need(
    n_rows: int, n_classes: int, expected: type
) -> None:
    assert entry_type(n_rows, n_classes) is expected


@given(st.integers(1, 2**40))
def test_the_last_row_fits_its_bits_and_no_bit_is_wasted(n_rows: int) -> None:
    bits = bits_for_rows(n_rows)
    assert n_rows - 1 < 2**bits
    assert bits == 1 or n_rows - 1 >= 2 ** (bits - 1)


def test_bits_of_a_node_start_at_a_byte() -> None:
    entries = np.arange(20, dtype=np.uint32)
    rows = NodeRows(entries, 5, [8, 1, 0, 9, 2])
    is_split = np.array([True, True, True, False, True])
    assert rows.sizes.tolist() == [8, 1, 0, 9, 2]
    assert rows.bit_offsets(is_split).tolist() == [0, 1, 2, 2, 2, 3]
