"""Draws from counters equal their reference, and are as random as draws should be."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.growth.sampling import (
    choose_rows,
    count_draws,
    count_draws_within,
    draw_below,
    draw_candidates,
    draw_unit,
    mix,
    write_entries,
    write_left_out,
)
from tests.reference import draws as reference
from tests.reference import shards
from tests.strategies import IS_PLAIN_PYTHON

KEYS = st.integers(0, 2**64 - 1)
N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 100
N_DRAWS = 3000 if IS_PLAIN_PYTHON else 200_000


def counted(key: int, n_draws: int, n_rows: int) -> list[int]:
    multiplicity = np.full(n_rows, 77, np.uint8)
    count_draws(np.uint64(key), n_draws, multiplicity)
    return multiplicity.tolist()


def counted_within(key: int, n_draws: int, n_table: int, first: int, n_kept: int) -> list[int]:
    multiplicity = np.full(n_kept, 77, np.uint8)
    count_draws_within(np.uint64(key), n_draws, n_table, first, multiplicity)
    return multiplicity.tolist()


def chosen(key: int, n_draws: int, n_rows: int) -> list[int]:
    multiplicity = np.full(n_rows, 77, np.uint8)
    choose_rows(np.uint64(key), n_draws, multiplicity)
    return multiplicity.tolist()


@given(KEYS, KEYS, st.integers(1, 2**32 - 1))
@settings(max_examples=N_EXAMPLES)
def test_a_draw_equals_the_reference_and_is_below_its_bound(
    key: int, counter: int, bound: int
) -> None:
    assert int(mix(np.uint64(key))) == reference.mix(key)
    drawn = int(draw_below(np.uint64(key), np.uint64(counter), np.uint64(bound)))
    assert drawn == reference.draw_below(key, counter, bound)
    assert 0 <= drawn < bound
    assert 0.0 <= draw_unit(np.uint64(key), np.uint64(counter)) < 1.0


def test_the_mixer_is_the_published_one() -> None:
    # the first outputs of splitmix64 for seed 1234567, from its authors' program
    golden = reference.GOLDEN
    outputs = [int(mix(np.uint64((1234567 + i * golden) % 2**64))) for i in (1, 2, 3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(KEYS, st.integers(1, 60), st.integers(0, 200))
@settings(max_examples=N_EXAMPLES)
def test_a_bootstrap_sample_equals_the_reference(key: int, n_rows: int, n_draws: int) -> None:
    assert counted(key, n_draws, n_rows) == reference.count_draws(key, n_draws, n_rows)


@given(KEYS, st.integers(1, 60), st.integers(0, 200), st.data())
@settings(max_examples=N_EXAMPLES)
def test_a_shard_draws_its_own_rows_of_the_bootstrap_sample_of_the_table(
    key: int, n_table: int, n_draws: int, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, n_table), max_size=3))
    whole: list[int] = []
    for first, end in pairwise([0, *sorted(cuts), n_table]):
        own = counted_within(key, n_draws, n_table, first, end - first)
        expected = shards.count_draws_within(key, n_draws, n_table, first, end - first)
        assert own == expected
        whole += own
    assert whole == counted(key, n_draws, n_table)


def test_a_row_counts_at_most_fifteen_times() -> None:
    assert counted(1, 15, 1) == [15]
    assert counted(1, 400, 2) == [15, 15]
    assert counted_within(1, 400, 2, 1, 1) == [15]


@given(KEYS, st.integers(1, 60), st.data())
@settings(max_examples=N_EXAMPLES)
def test_a_sample_without_replacement_equals_the_reference_and_has_its_size(
    key: int, n_rows: int, data: st.DataObject
) -> None:
    n_draws = data.draw(st.integers(0, n_rows))
    multiplicity = chosen(key, n_draws, n_rows)
    assert multiplicity == reference.choose_rows(key, n_draws, n_rows)
    assert sum(multiplicity) == n_draws
    assert set(multiplicity) <= {0, 1}


def chi_square(counts: NDArray[Any]) -> float:
    """Distance from equal counts in standard deviations of what chance would give."""
    expected = counts.sum() / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


@pytest.mark.parametrize("key", [0, 1, 2**63])
def test_draws_are_even(key: int) -> None:
    counters = range(N_DRAWS // 3)
    below = [int(draw_below(np.uint64(key), np.uint64(i), np.uint64(100))) for i in counters]
    unit = [draw_unit(np.uint64(key), np.uint64(i)) for i in counters]
    # four standard deviations: chance alone fails once in 16,000 keys, and the keys are fixed
    assert abs(chi_square(np.bincount(below, minlength=100))) < 4
    assert abs(chi_square(np.histogram(unit, 100, (0, 1))[0])) < 4


def test_a_bootstrap_leaves_out_every_third_row_or_so() -> None:
    multiplicity = np.array(counted(7, N_DRAWS, N_DRAWS))
    share = (multiplicity == 0).mean()
    assert share == pytest.approx(np.exp(-1), abs=4 * 0.5 / np.sqrt(N_DRAWS))
    assert multiplicity.sum() == N_DRAWS


@given(st.data(), st.integers(1, 40), st.sampled_from([np.uint32, np.uint64]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_entries_hold_row_multiplicity_and_class_of_the_drawn_rows(
    data: st.DataObject, n_rows: int, dtype: type, with_classes: bool
) -> None:
    multiplicity = np.array(
        data.draw(st.lists(st.integers(0, 15), min_size=n_rows, max_size=n_rows))
    )
    classes = np.array(data.draw(st.lists(st.integers(0, 999), min_size=n_rows, max_size=n_rows)))
    codes = classes.astype(np.uint16) if with_classes else np.zeros(0, np.uint16)
    entries: NDArray[Any] = np.zeros(n_rows + 6, dtype)
    end = write_entries(multiplicity.astype(np.uint8), codes, np.uint64(6), entries, 5)
    drawn = [row for row in range(n_rows) if multiplicity[row]]
    assert end == 5 + len(drawn)
    written = entries[5:end].astype(np.int64)
    assert (written & 63).tolist() == drawn
    assert (written >> 6 & 15).tolist() == multiplicity[drawn].tolist()
    assert (written >> 10).tolist() == (
        classes[drawn] if with_classes else 0 * classes[drawn]
    ).tolist()


@given(st.lists(st.tuples(st.integers(0, 15), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=N_EXAMPLES)
def test_left_out_rows_are_those_that_could_have_been_drawn_but_were_not(
    rows: list[tuple[int, bool]],
) -> None:
    multiplicity = np.array([times for times, _ in rows], np.uint8)
    allowed = np.array([is_allowed for _, is_allowed in rows])
    entries = np.zeros(len(rows) + 1, np.uint32)
    end = write_left_out(multiplicity, allowed, entries, 0)
    expected = [i for i, (times, is_allowed) in enumerate(rows) if times == 0 and is_allowed]
    assert entries[:end].tolist() == expected


def drawn_candidates(
    keys: NDArray[np.uint64], nodes: list[tuple[int, int, int]], count: int, n_columns: int
) -> list[list[int]]:
    """Candidate columns of (tree, node, tried columns), whose bits lie apart as two owners' do."""
    gap = n_columns // 2
    bit_of_column = np.array([c if c < gap else c + 11 for c in range(n_columns)])
    bitmap = np.zeros((len(nodes), (n_columns + 11) // 8 + 1), np.uint8)
    tree, node, tried = (np.array(part) for part in zip(*nodes, strict=True))
    draw_candidates(
        keys, tree.astype(np.int32), node.astype(np.int32), tried, count, bit_of_column, bitmap
    )
    bits = np.unpackbits(bitmap, axis=1, bitorder="little")
    assert bits.sum() == bits[:, bit_of_column].sum()
    return [np.flatnonzero(row).tolist() for row in bits[:, bit_of_column]]


@given(st.lists(KEYS, min_size=1, max_size=3), st.integers(1, 30), st.integers(1, 30), st.data())
@settings(max_examples=N_EXAMPLES)
def test_candidates_are_the_next_columns_of_the_order_of_the_node(
    keys: list[int], n_columns: int, count: int, data: st.DataObject
) -> None:
    node = st.tuples(
        st.integers(0, len(keys) - 1), st.integers(0, 2**31 - 1), st.integers(0, n_columns)
    )
    nodes = data.draw(st.lists(node, min_size=1, max_size=5))
    found = drawn_candidates(np.array(keys, np.uint64), nodes, count, n_columns)
    for (tree, number, tried), candidates in zip(nodes, found, strict=True):
        order = reference.order_columns(keys[tree], number, n_columns)
        assert candidates == sorted(order[tried : tried + count])


def test_every_column_is_drawn_equally_often() -> None:
    n_nodes = N_DRAWS // 10
    found = drawn_candidates(np.array([3], np.uint64), [(0, n, 0) for n in range(n_nodes)], 4, 12)
    assert all(len(candidates) == 4 for candidates in found)
    counts = np.bincount(np.concatenate(found), minlength=12)
    # drawing without replacement only makes the counts more even than chance
    assert chi_square(counts) < 4
