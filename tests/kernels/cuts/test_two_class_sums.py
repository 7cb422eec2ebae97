"""Two classes are counted as any number of classes is, marks included, in any parts."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.kernels.cuts.kept_values import Kept
from fedforest.kernels.cuts.pairs import place_asked
from fedforest.kernels.cuts.sides import Asked
from fedforest.kernels.cuts.sums import PADDING, count_classes
from fedforest.kernels.cuts.tiles import place_tiles
from fedforest.kernels.cuts.two_class_sums import count_two_classes
from fedforest.kernels.layout import RowOrder

ROW_BITS = np.uint64(12)


def make_order(rng: np.random.Generator, sizes: list[int]) -> RowOrder:
    """Nodes of such sizes; rows of both classes, drawn up to three times."""
    rows = np.concatenate([np.arange(size) for size in sizes])
    classes, times = rng.integers(0, 2, len(rows)), rng.integers(1, 4, len(rows))
    entries = rows | (times << 12) | (classes << 16)
    ends = np.cumsum(sizes, dtype=np.int64)
    return RowOrder(entries.astype(np.uint32), ROW_BITS, ends - np.array(sizes), ends)


def make_kept(rng: np.random.Generator, order: RowOrder, node_start: NDArray[np.int64]) -> Kept:
    first = place_tiles(order.start, order.stop, node_start)
    values = rng.random(int(first[-1]) + int(PADDING)).astype(np.float32)
    n_tiles, n_entries = -(-int(np.diff(node_start).max()) // 8), len(order.entries)
    marks = np.zeros(n_tiles * n_entries + 8, np.uint8)
    no_gaps, per_tile = np.zeros(40, np.bool_), np.uint64(n_entries)
    return Kept(first, values, no_gaps, is_tiled=True, marks=marks, per_tile=per_tile)


@pytest.mark.parametrize("share_asked", [0.0, 0.1, 0.8, 1.0])
@pytest.mark.parametrize("n_pairs", [1, 6, 8, 9, 17])
@pytest.mark.parametrize("middle", [0, 2, 5])
def test_counts_and_marks_are_those_of_any_number_of_classes(
    share_asked: float, n_pairs: int, middle: int
) -> None:
    rng = np.random.default_rng(n_pairs)
    sizes = [3, 0, 1, 2500, 9]
    order = make_order(rng, sizes)
    node_start = np.arange(len(sizes) + 1) * n_pairs
    threshold = rng.random(node_start[-1]).astype(np.float32)
    threshold[rng.random(len(threshold)) >= share_asked] = np.nan
    asked = Asked(
        node_start,
        np.zeros(len(threshold), np.int32),
        threshold,
        np.zeros(len(threshold), np.uint8),
        np.full(len(threshold), -1, np.int32),
        np.zeros((0, 4), np.uint64),
        place_asked(node_start, threshold),
    )
    expected_kept, kept = (make_kept(np.random.default_rng(7), order, node_start) for _ in range(2))
    expected, found = np.zeros((2, int(asked.asked_start[-1]), 2), np.int64)
    count_classes(order, 2, expected_kept, asked, 2, expected, 0, len(sizes))
    for part in ((middle, len(sizes)), (0, middle)):
        before = found.copy()
        count_two_classes(order, kept, asked, found, *part)
        own = slice(*asked.asked_start[[*part]])
        before[own] = found[own]
        assert np.array_equal(before, found)  # of other nodes nothing was touched
    assert np.array_equal(found, expected)
    if share_asked == 1.0:
        assert np.array_equal(kept.marks, expected_kept.marks)
