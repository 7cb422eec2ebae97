"""Every way to search a node gives the split of the reference, also where one gives way to another.

The sizes are those at which the searches by classes and by moments change their method.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.instructions import LANES
from fedforest.kernels.criteria.classes import LIGHT_WEIGHT, ClassNode, best_gini
from fedforest.kernels.criteria.entropy import Entropy
from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import MISSING_BIN, Targets
from fedforest.kernels.splits.classes import ROWS_PER_CLASS
from fedforest.kernels.splits.ranking import (
    ORDERED_NODE,
    POSITION_BITS,
    RANKED_NODE,
    SORTED_NODE,
    fetch_keys,
    make_keys,
    make_ordered,
    rank_keys,
    sort_keys,
    turn_missing,
)
from fedforest.kernels.splits.sorted_columns import (
    LARGEST_SORTED,
    bin_in,
    key_at,
    merge_exchange,
    position_in,
    share_bin,
    sort_rows,
)
from fedforest.kernels.splits.sorted_columns import make_keys as make_sorted_keys
from tests.kernels.splits.test_split_search import (
    NOTHING,
    Case,
    read_rows,
    search_classes,
    search_moments,
)
from tests.reference.splits import class_weights, moments
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, BinnedTable, DrawnNodes, class_codes

N_EXAMPLES = 15 if IS_PLAIN_PYTHON else 50
LIMITS = (
    LARGEST_SORTED,
    RANKED_NODE,
    ORDERED_NODE,
    10 * ROWS_PER_CLASS,
    SORTED_NODE,
)
SIZES = sorted({1, 2, 3, *(limit + near for limit in LIMITS for near in (-1, 0, 1))})


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """A node of every size, over numeric columns with and without gaps, and one of categories."""
    rng = np.random.default_rng(draw(SEEDS, label="seed"))
    n_bins = draw(st.sampled_from([2, 9, 255]), label="bins")
    bins = rng.integers(0, n_bins, (7, max(SIZES)))
    for column, share in enumerate([0, 0, 0, 0.1, 0.5, 1.0, 0.1]):
        bins[column, rng.random(max(SIZES)) < share] = MISSING_BIN
    is_categorical = np.arange(7) == 6
    table = BinnedTable(bins.astype(np.uint8), np.full(7, n_bins, np.int16), is_categorical)
    rows = [np.sort(rng.choice(max(SIZES), size, replace=False)) for size in SIZES]
    most = draw(st.sampled_from([1, 15]), label="largest multiplicity")
    nodes = DrawnNodes(rows, [rng.integers(1, most + 1, size) for size in SIZES])
    candidates = [rng.permutation(7)[: rng.integers(1, 8)].tolist() for _ in SIZES]
    return Case(table, nodes, candidates, draw(st.integers(1, 3), label="min_rows_leaf"))


@given(
    st.data(),
    small_cases(),
    st.sampled_from([3, 10, 12, 33]),
    st.sampled_from([None, 2, 2**8, 2**18, 2**22]),
    st.sampled_from([Gini(), Gini(), Entropy()]),
)
@settings(max_examples=N_EXAMPLES)
def test_nodes_of_every_size_are_split_by_classes_as_the_reference_does(
    data: st.DataObject, case: Case, n_classes: int, heaviest: int | None, criterion: Gini | Entropy
) -> None:
    """The weights need fields of 8, 16 and 32 bits, and squares beyond 2^52."""
    rng = np.random.default_rng(data.draw(SEEDS))
    classes = data.draw(class_codes(case.table, n_classes))
    weights = rng.integers(1, heaviest, case.table.n_rows) if heaviest else NOTHING
    order = case.nodes.order(case.table.n_rows, classes)
    found = search_classes(case, order, Targets(n_classes, weights, NOTHING, NOTHING), criterion)
    statistic = class_weights(n_classes, entropy=isinstance(criterion, Entropy))
    assert found == case.expected(read_rows(case, classes, weights), statistic)


@given(st.data(), small_cases(), st.sampled_from([1, 2**40]), st.sampled_from([None, 2, 2**30]))
@settings(max_examples=N_EXAMPLES)
def test_nodes_of_every_size_are_split_by_moments_as_the_reference_does(
    data: st.DataObject, case: Case, largest: int, heaviest: int | None
) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows = case.table.n_rows
    levels = rng.integers(-largest, largest + 1, n_rows)
    weights = rng.integers(1, heaviest, n_rows) if heaviest else NOTHING
    values = levels * (weights >> 20 | 1) if heaviest else levels
    classes = np.zeros(n_rows, np.int64)
    order = case.nodes.order(n_rows, classes)
    found = search_moments(case, order, Targets(0, weights, values, levels))
    assert found == case.expected(read_rows(case, classes, weights, values), moments())


@pytest.mark.parametrize("weighted", [False, True])
def test_nodes_larger_than_any_block_are_split_by_moments_as_the_reference_does(
    weighted: bool,
) -> None:
    """With weights their rows do not fit a packed word."""
    n_rows = 2_100
    rng = np.random.default_rng(3)
    bins = rng.integers(0, 200, (8, n_rows))
    bins[1, rng.random(n_rows) < 0.2] = MISSING_BIN
    table = BinnedTable(bins.astype(np.uint8), np.full(8, 200, np.int16), np.arange(8) == 2)
    node = DrawnNodes([np.arange(n_rows)], [rng.integers(1, 4, n_rows)])
    case = Case(table, node, [list(range(8))], 2)
    weights = rng.integers(1, 1000, n_rows) if weighted else NOTHING
    levels = rng.integers(-(2**40), 2**40, n_rows) + (bins[1] << 32)
    values = levels * weights if weighted else levels
    classes = np.zeros(n_rows, np.int64)
    found = search_moments(case, node.order(n_rows, classes), Targets(0, weights, values, levels))
    assert found == case.expected(read_rows(case, classes, weights, values), moments())


@pytest.mark.parametrize("n_rows", [3, 40, 100, 300, 2_100])
def test_missing_values_alone_never_go_left_even_where_rounding_would_favour_it(
    n_rows: int,
) -> None:
    """Parting missing from present values scores almost the same from either side."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bins = np.where(rng.random(n_rows) < 0.3, MISSING_BIN, 7)[None].astype(np.uint8)
        bins[0, :2] = 7, MISSING_BIN
        table = BinnedTable(bins, np.array([9], np.int16), np.array([False]))
        node = DrawnNodes([np.arange(n_rows)], [np.ones(n_rows, np.int64)])
        case = Case(table, node, [[0]], 1)
        levels = rng.integers(-(2**40), 2**40, n_rows)
        order = node.order(n_rows, np.zeros(n_rows, np.int64))
        [found] = search_moments(case, order, Targets(0, NOTHING, levels, levels))
        assert found is not None
        assert (found.cut, found.missing_left) == (7, 0)


@kernel
def order_rows(bins, rows, ranked):  # type: ignore[no-untyped-def]
    """The rows of a node in order, by either way; and how many missing values were moved."""
    keys, ordered, counts = make_keys(), make_ordered(), np.zeros(256, np.int32)
    n = len(rows)
    fetch_keys(bins, np.uint64(0), rows, n, keys)
    if ranked:
        rank_keys(keys, n, ordered)
    else:
        sort_keys(keys, n, counts, ordered)
    in_order = ordered[: n + 1].copy()
    n_missing = turn_missing(ordered, n)
    return in_order, n_missing, ordered[:n].copy(), counts


@given(SEEDS, st.integers(1, SORTED_NODE), st.sampled_from([1, 5, 256]))
@settings(max_examples=2 * N_EXAMPLES)
def test_rows_are_ordered_by_bin_then_position_and_missing_ones_can_be_turned_to_the_front(
    seed: int, n: int, n_codes: int
) -> None:
    rng = np.random.default_rng(seed)
    bins = (MISSING_BIN - rng.integers(0, n_codes, n)).astype(np.uint8)
    rows = np.arange(n, dtype=np.uint64)
    expected = sorted((int(code) << POSITION_BITS) | row for row, code in enumerate(bins))
    absent = int((bins == MISSING_BIN).sum())
    for ranked in (True, False):
        in_order, n_missing, turned, counts = order_rows(bins, rows, ranked)
        assert in_order[:n].tolist() == expected
        assert in_order[n] < 0
        assert n_missing == absent
        assert turned.tolist() == expected[n - absent :] + expected[: n - absent]
        assert not counts.any()


@given(SEEDS, st.integers(0, 40))
@settings(max_examples=N_EXAMPLES)
def test_merge_exchange_sorts_any_number_of_things(seed: int, n: int) -> None:
    things = np.random.default_rng(seed).integers(0, n + 1, n).tolist()
    expected = sorted(things)
    for i, j in merge_exchange(n):
        assert i < j < n
        things[i], things[j] = sorted((things[i], things[j]))
    assert things == expected


@kernel
def sort_columns(by_row, columns, rows):  # type: ignore[no-untyped-def]
    """(bin, position, next row is in the same bin) by rank and column."""
    n, n_lanes, keys = len(rows), len(columns) - 1, make_sorted_keys()
    sort_rows(by_row, columns, 1, len(columns), rows, n, keys)
    found = np.zeros((n, n_lanes, 3), np.int64)
    for rank in range(n):
        for lane in range(n_lanes):
            key, following = key_at(keys, rank, lane), key_at(keys, rank + 1, lane)
            found[rank, lane, 0] = bin_in(key)
            found[rank, lane, 1] = position_in(key)
            found[rank, lane, 2] = share_bin(key, following)
    return found


@given(SEEDS, st.integers(1, LARGEST_SORTED), st.integers(1, LANES), st.sampled_from([1, 5, 256]))
@settings(max_examples=2 * N_EXAMPLES)
def test_rows_are_sorted_by_bin_then_position_in_all_columns_at_once(
    seed: int, n: int, n_lanes: int, n_codes: int
) -> None:
    rng = np.random.default_rng(seed)
    table = (MISSING_BIN - rng.integers(0, n_codes, (200, 12))).astype(np.uint8)
    columns = rng.permutation(12)[: n_lanes + 1].astype(np.uint64)
    rows = rng.permutation(200)[:n]
    found = sort_columns(table.reshape(-1), columns, 12 * rows.astype(np.uint64))
    for lane, column in enumerate(columns[1:]):
        expected = sorted((int(table[row, column]), i) for i, row in enumerate(rows))
        assert [tuple(pair) for pair in found[:, lane, :2].tolist()] == expected
        alike = [one[0] == other[0] for one, other in pairwise(expected)]
        assert found[:-1, lane, 2].tolist() == alike


@kernel
def pick_gini(sums, count, node, least, most):  # type: ignore[no-untyped-def]
    """Call what is compiled into its callers."""
    return best_gini(sums, count, node, least, most, np.zeros(count))


def gini_sums(lefts: NDArray[Any], in_node: NDArray[Any]) -> NDArray[np.int64]:
    """Weight, squares, products and rows left of each cut."""
    return np.stack(
        [lefts.sum(1), (lefts**2).sum(1), (lefts * in_node).sum(1), np.arange(1, len(lefts) + 1)]
    )


@given(SEEDS, st.integers(1, 40), st.sampled_from([5, 2**10, LIGHT_WEIGHT // 3, 2**29]))
@settings(max_examples=2 * N_EXAMPLES)
def test_the_best_gini_cut_is_the_first_of_the_highest_scores_of_enough_rows(
    seed: int, count: int, heaviest: int
) -> None:
    rng = np.random.default_rng(seed)
    in_node = rng.integers(2, heaviest, 3)
    lefts = np.sort(rng.integers(1, in_node, (count, 3)), axis=0)
    node = ClassNode(count + 1, int(in_node.sum()), int((in_node**2).sum()), Gini(), 1)
    least, most = rng.integers(0, count + 2, 2).tolist()
    scores = [
        float(sum(int(x) ** 2 for x in left)) / float(left.sum())
        + float(sum(int(x) ** 2 for x in in_node - left)) / float((in_node - left).sum())
        for left in lefts
    ]
    valid = [k for k in range(count) if least <= k + 1 < most]
    score, where = pick_gini(gini_sums(lefts, in_node), count, node, least, most)
    if valid:
        assert (score, where) == (max(scores[k] for k in valid), where)
        assert where == min(k for k in valid if scores[k] == score)
    else:
        assert score == -np.inf
