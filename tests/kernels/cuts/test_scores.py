"""The best of the cuts asked about, compared with scoring each by exact integers."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.criteria.entropy import Entropy
from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.criteria.poisson import Poisson
from fedforest.kernels.criteria.squared_error import SquaredError
from fedforest.kernels.cuts.scores import (
    Choice,
    Sides,
    choose_by_classes,
    choose_by_moments,
    same_product,
)
from fedforest.kernels.layout import NO_LIMITS, NO_SPLIT, Rules
from tests.reference import random_cuts as reference
from tests.reference.random_cuts import AskedCut
from tests.reference.splits import Sums, class_weights, deviance, moments
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 40 if IS_PLAIN_PYTHON else 200
INT64 = st.integers(-(2**63), 2**63 - 1)
NOT_NEGATIVE = st.integers(0, 2**63 - 1)


def make_sides(
    nodes: Sequence[Sequence[AskedCut]], totals: Sequence[Sums], width: int, *, both: bool
) -> Sides:
    """The arrays of some nodes' cuts; sides are cut off after `width` integers."""
    asked_start = np.cumsum([0, *(len(cuts) for cuts in nodes)])
    rows = [
        (*cut.left[:width], *(cut.right[:width] if both else ())) for cuts in nodes for cut in cuts
    ]
    sums = np.array(rows, np.int64).reshape(len(rows), width * (2 if both else 1))
    whole = np.array(totals, np.int64).reshape(len(totals), -1)
    return Sides(asked_start, sums, whole, width)


def nothing_chosen(n_nodes: int) -> Choice:
    gainless, fits = np.zeros((2, n_nodes), np.bool_)
    return Choice(np.zeros(n_nodes), np.zeros(n_nodes, np.int64), gainless, fits)


def divide(rng: np.random.Generator, node: NDArray[np.int64], n_cuts: int) -> list[AskedCut]:
    """Cuts of a node at random, some of them alike, some with an empty side."""
    cuts = []
    for _ in range(n_cuts):
        left = rng.integers(0, node + 1) if rng.random() < 0.8 else node * rng.integers(0, 2)
        cuts.append(AskedCut(tuple(left.tolist()), tuple((node - left).tolist())))
        if rng.random() < 0.2:
            cuts.append(cuts[-1])
    return cuts


@given(
    SEEDS,
    st.integers(2, 6),
    st.sampled_from([1, 10, 2000, 2**28, 2**40]),
    st.sampled_from([Gini(), Entropy()]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=N_EXAMPLES)
def test_the_best_cut_by_class_weights_is_that_of_the_reference(
    seed: int, n_classes: int, largest: int, criterion: Gini | Entropy, rows_apart: bool, both: bool
) -> None:
    rng = np.random.default_rng(seed)
    totals, nodes = [], []
    for _ in range(3):
        node = rng.integers(0, largest, n_classes, endpoint=True)
        rows = int(rng.integers(0, 30)) if rows_apart else int(node.sum())
        whole = np.append(node, rows)
        cuts = divide(rng, whole, int(rng.integers(0, 7)))
        if not rows_apart:
            cuts = [AskedCut(count_rows(cut.left), count_rows(cut.right)) for cut in cuts]
        totals.append(tuple(whole.tolist()))
        nodes.append(cuts)
    leaf = int(rng.integers(1, 4))
    sides = make_sides(nodes, totals, n_classes + rows_apart, both=both)
    choice = nothing_chosen(3)
    limits = draw_limits(rng, [sum(total[:-1]) for total in totals])
    choose_by_classes(sides, n_classes, Rules(criterion, leaf, limits), choice, 0, 3)
    statistic = class_weights(n_classes, entropy=isinstance(criterion, Entropy))
    for k, (begin, end) in enumerate(pairwise(sides.asked_start.tolist())):
        least = limits[k] if len(limits) else 0
        possible = [cut if has_weight(cut, least) else NEVER for cut in nodes[k]]
        place, score = reference.choose_cut(possible, statistic.score, leaf)
        assert choice.score[k] == score
        assert choice.asked[k] == (begin + place if place >= 0 else -1)
        assert choice.asked[k] < max(end, 0)


NEVER = AskedCut((0, 0), (0, 0))  # without rows on either side


def has_weight(cut: AskedCut, least: int) -> bool:
    return min(sum(cut.left[:-1]), sum(cut.right[:-1])) >= max(1, least)


def draw_limits(rng: np.random.Generator, weights: Sequence[int]) -> NDArray[np.int64]:
    """What sides of each node must weigh: nothing, or a share of the node."""
    if rng.random() < 0.5:
        return NO_LIMITS
    shares = rng.choice([0.0, 0.1, 0.3, 0.5], len(weights))
    least = [math.ceil(share * weight) for share, weight in zip(shares, weights, strict=True)]
    return np.array(least, np.int64)


def count_rows(side: Sums) -> Sums:
    """The same side where every row weighs one."""
    return (*side[:-1], sum(side[:-1]))


@given(
    SEEDS,
    st.sampled_from([0, 3, 2**20, 2**38]),
    st.sampled_from([1, 2**20]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=N_EXAMPLES)
def test_the_best_cut_by_moments_is_that_of_the_reference(
    seed: int, largest_target: int, largest_weight: int, rows_apart: bool, both: bool
) -> None:
    rng = np.random.default_rng(seed)
    apart = rows_apart or largest_weight > 1
    nodes, totals = [], []
    for _ in range(3):
        cuts, whole = divide_rows(rng, largest_target, largest_weight)
        nodes.append(cuts)
        totals.append(whole)
    leaf = int(rng.integers(1, 4))
    sides = make_sides(nodes, totals, 3 if apart else 2, both=both)
    choice = nothing_chosen(3)
    limits = draw_limits(rng, [total[0] for total in totals])
    choose_by_moments(sides, Rules(SquaredError(), leaf, limits), choice, 0, 3)
    for k, begin in enumerate(sides.asked_start.tolist()[:-1]):
        least = limits[k] if len(limits) else 0
        valid = [
            min(cut.left[-1], cut.right[-1]) >= leaf and min(cut.left[0], cut.right[0]) >= least
            for cut in nodes[k]
        ]
        possible = [
            cut if reference.gains(cut) and is_valid else NEVER
            for cut, is_valid in zip(nodes[k], valid, strict=True)
        ]
        place, score = reference.choose_cut(possible, moments().score, leaf)
        assert choice.score[k] == score
        assert choice.asked[k] == (begin + place if place >= 0 else -1)
        assert choice.gainless[k] == (place < 0 and any(valid))


def divide_rows(
    rng: np.random.Generator, largest_target: int, largest_weight: int, *, from_zero: bool = False
) -> tuple[list[AskedCut], Sums]:
    """Random cuts of random rows: (weight, sum, rows) of each side, and of the node."""
    n_rows = int(rng.integers(0, 12))
    weight = rng.integers(1, largest_weight, n_rows, endpoint=True)
    lowest = 0 if from_zero else -largest_target
    target = rng.integers(lowest, largest_target, n_rows, endpoint=True)
    rows = [(int(w), int(w) * int(t), 1) for w, t in zip(weight, target, strict=True)]
    cuts = []
    for _ in range(int(rng.integers(0, 6))):
        is_left = rng.integers(0, 2, n_rows).tolist()
        sides = [
            reference.add_up([row for row, left in zip(rows, is_left, strict=True) if left == s], 3)
            for s in (1, 0)
        ]
        cuts.append(AskedCut(sides[0], sides[1]))
    return cuts, reference.add_up(rows, 3)


@given(SEEDS, st.sampled_from([1, 3, 2**30]), st.sampled_from([1, 2**20]), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_the_best_cut_by_deviance_has_targets_above_zero_on_both_sides(
    seed: int, largest_target: int, largest_weight: int, both: bool
) -> None:
    rng = np.random.default_rng(seed)
    drawn = [divide_rows(rng, largest_target, largest_weight, from_zero=True) for _ in range(3)]
    nodes, totals = [cuts for cuts, _ in drawn], [whole for _, whole in drawn]
    leaf, choice = int(rng.integers(1, 4)), nothing_chosen(3)
    sides = make_sides(nodes, totals, 3, both=both)
    choose_by_moments(sides, Rules(Poisson(), leaf), choice, 0, 3)
    for k, begin in enumerate(sides.asked_start.tolist()[:-1]):
        allowed = [
            min(cut.left[1], cut.right[1]) > 0 and min(cut.left[-1], cut.right[-1]) >= leaf
            for cut in nodes[k]
        ]
        possible = [
            cut if reference.gains(cut) and is_allowed else NEVER
            for cut, is_allowed in zip(nodes[k], allowed, strict=True)
        ]
        place, score = reference.choose_cut(possible, deviance().score, leaf)
        assert choice.score[k] == score
        assert choice.asked[k] == (begin + place if place >= 0 else -1)
        assert choice.gainless[k] == (place < 0 and any(allowed))


@given(st.integers(1, 2**31), st.integers(1, 2**31), st.integers(0, 2**20), st.integers(0, 2**20))
def test_sides_of_one_mean_gain_nothing_however_large_their_products(
    left: int, right: int, mean_bits: int, weight_bits: int
) -> None:
    mean, scale = 1 + mean_bits * 2**10, 1 + weight_bits
    sides = [(scale * n, mean * scale * n, n) for n in (left, right)]
    sums = [tuple((x + 2**63) % 2**64 - 2**63 for x in side) for side in sides]
    if sums != sides or sides[0][0] + sides[1][0] >= 2**52 or max(sides)[1] >= 2**61:
        return
    node = tuple(a + b for a, b in zip(*sides, strict=True))
    choice = nothing_chosen(1)
    cut = [AskedCut(sides[0], sides[1])]
    choose_by_moments(
        make_sides([cut], [node], 3, both=False), Rules(SquaredError(), 1), choice, 0, 1
    )
    assert choice.gainless[0]
    assert choice.score[0] == NO_SPLIT


@given(INT64, NOT_NEGATIVE, INT64, NOT_NEGATIVE)
def test_products_are_compared_exactly(a: int, b: int, c: int, d: int) -> None:
    arguments = map(np.int64, (a, b, c, d))
    assert same_product(*arguments) == (a * b == c * d)


@given(st.integers(-(2**31), 2**31), st.integers(0, 2**31), st.integers(0, 2**31))
def test_equal_products_of_different_factors_are_found(x: int, y: int, z: int) -> None:
    assert same_product(np.int64(x * y), np.int64(z), np.int64(x * z), np.int64(y))


def test_products_that_are_equal_modulo_2_to_the_64_only_differ() -> None:
    assert not same_product(np.int64(2**40), np.int64(2**24), np.int64(0), np.int64(1))
    assert not same_product(np.int64(-(2**40)), np.int64(2**24), np.int64(2**40), np.int64(2**24))


@pytest.mark.parametrize("criterion", [Gini(), Entropy()])
def test_noise_below_zero_counts_as_nothing(criterion: Gini | Entropy) -> None:
    noisy = Sides(np.array([0, 1]), np.array([[-5, 9, 9, 7, -1, 8]]), np.zeros((1, 3), np.int64), 3)
    clean = Sides(np.array([0, 1]), np.array([[0, 9, 9, 7, 0, 8]]), np.zeros((1, 3), np.int64), 3)
    choices = []
    for sides in (noisy, clean):
        choices.append(nothing_chosen(1))
        choose_by_classes(sides, 2, Rules(criterion, 1), choices[-1], 0, 1)
    assert choices[0].score[0] == choices[1].score[0] > NO_SPLIT


def test_a_side_that_noise_left_empty_is_no_side() -> None:
    sums = np.array([[-1, 0, 5, 3, 4, 5], [1, 2, 3, -7, -7, 4]])
    sides = Sides(np.array([0, 2]), sums, np.zeros((1, 3), np.int64), 3)
    choice = nothing_chosen(1)
    choose_by_classes(sides, 2, Rules(Gini(), 1), choice, 0, 1)
    assert choice.asked[0] == -1
    assert math.isinf(choice.score[0])


@pytest.mark.parametrize("side", [(6, 0), (0, 4), (-1, 2), (2, -1)])
def test_more_rows_on_a_side_than_in_the_node_do_not_fit(side: tuple[int, int]) -> None:
    sides = Sides(np.array([0, 2]), np.array([(1, 1), side]), np.array([[5, 3, 8]]), 2)
    choice = nothing_chosen(1)
    choose_by_classes(sides, 2, Rules(Gini(), 1), choice, 0, 1)
    assert not choice.fits[0]
