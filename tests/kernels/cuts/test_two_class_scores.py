"""Cuts of two classes, scored without a loop, are chosen as those of any number of classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.criteria.gini import Gini
from fedforest.kernels.cuts.scores import Choice, Sides, choose_by_classes
from fedforest.kernels.cuts.two_class_scores import CUTS_TOGETHER, choose_by_two_classes
from fedforest.kernels.layout import Rules
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 40 if IS_PLAIN_PYTHON else 300
N_NODES = 4


def make_sides(rng: np.random.Generator, largest: int) -> Sides:
    """Nodes with up to seven cuts each, some of them alike or with an empty side."""
    asked_start = np.cumsum([0, *rng.integers(0, 8, N_NODES)])
    classes = rng.integers(0, largest, (N_NODES, 2), endpoint=True)
    node = np.repeat(np.arange(N_NODES), np.diff(asked_start))
    whole = classes[node]
    left = np.where(rng.random(whole.shape) < 0.2, whole, rng.integers(0, whole, endpoint=True))
    left[rng.random(len(left)) < 0.2] = 0
    totals = np.concatenate([classes, classes.sum(axis=1, keepdims=True)], axis=1)
    return Sides(asked_start, left.reshape(-1, 2), totals, 2)


def make_choice() -> Choice:
    gainless, fits = np.ones((2, N_NODES), np.bool_)
    return Choice(np.full(N_NODES, 7.0), np.full(N_NODES, 7), gainless, fits)


@given(
    SEEDS, st.sampled_from([1, 3, 20, 2000, 2**25, 2**26, 2**30, 2**31, 2**40]), st.integers(0, 4)
)
@settings(max_examples=N_EXAMPLES)
def test_the_choice_is_the_same_to_the_bit(seed: int, largest: int, leaf: int) -> None:
    sides = make_sides(np.random.default_rng(seed), largest)
    expected, found = make_choice(), make_choice()
    choose_by_classes(sides, 2, Rules(Gini(), leaf), expected, 0, N_NODES)
    choose_by_two_classes(sides, leaf, found, 0, 2)
    choose_by_two_classes(sides, leaf, found, 2, N_NODES)
    assert found.score.tobytes() == expected.score.tobytes()
    for name in ("asked", "gainless", "fits"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


@pytest.mark.parametrize("side", [(6, 0), (0, 4), (-1, 2), (2, -1)])
def test_more_rows_on_a_side_than_in_the_node_do_not_fit(side: tuple[int, int]) -> None:
    totals = np.array([[5, 3, 8]])
    sides = Sides(np.array([0, 2]), np.array([(1, 1), side]), totals, 2)
    choice = make_choice()
    choose_by_two_classes(sides, 1, choice, 0, 1)
    assert not choice.fits[0]


@pytest.mark.parametrize("n_cuts", [CUTS_TOGETHER - 1, CUTS_TOGETHER, CUTS_TOGETHER + 1])
def test_nodes_with_as_many_cuts_as_are_scored_together_and_more_are_chosen_alike(
    n_cuts: int,
) -> None:
    rng = np.random.default_rng(n_cuts)
    n_of_nodes = [3, n_cuts, 2, n_cuts]
    asked_start = np.cumsum([0, *n_of_nodes])
    left = rng.integers(0, 90, (int(asked_start[-1]), 2))
    totals = np.full((N_NODES, 3), 90)
    totals[:, 2] = 180
    totals[2] = [2**26, 90, 2**26 + 90]  # too many rows to be scored with the others
    sides = Sides(asked_start, left, totals, 2)
    expected, found = make_choice(), make_choice()
    choose_by_classes(sides, 2, Rules(Gini(), 1), expected, 0, N_NODES)
    choose_by_two_classes(sides, 1, found, 0, N_NODES)
    assert found.score.tobytes() == expected.score.tobytes()
    assert found.asked.tolist() == expected.asked.tolist()
