import math
from typing import get_args

import numpy as np
import pytest

from fedforest.kernels.criteria.dispatch import (
    is_by_moments,
    make_table,
    part,
    score_classes,
    score_heavy_classes,
    score_moments,
)
from fedforest.kernels.criteria.registry import (
    BY_NAME,
    BY_WIRE,
    CRITERIA,
    ByClasses,
    ByMoments,
    ClassCriterion,
    Criterion,
    NumberCriterion,
)
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import NO_SPLIT
from fedforest.tree.growth.parameters import ForestParameters, Task

BY_MOMENTS = [one for one in CRITERIA if isinstance(one.scores, ByMoments)]
BY_CLASSES = [one for one in CRITERIA if isinstance(one.scores, ByClasses)]


@kernel
def score_lefts(formula, a, s, n, m, scores):  # type: ignore[no-untyped-def]
    """Scores as kernels get them."""
    for k in range(len(a)):
        scores[k] = score_moments(formula, a[k], s[k], n, m)


@kernel
def score_classes_both_ways(formula, left, right):  # type: ignore[no-untyped-def]
    """The score of two sides from integers, and that in float64."""
    table = make_table(formula)
    here, there, weight, rest = 0, 0, 0, 0
    for c in range(len(left)):
        here, there = here + part(formula, left[c], table), there + part(formula, right[c], table)
        weight, rest = weight + left[c], rest + right[c]
    exact = score_classes(formula, here, there, weight, rest, table)
    return exact, score_heavy_classes(
        formula, np.float64(here), np.float64(there), np.float64(weight), np.float64(rest)
    )


def test_every_task_has_criteria_and_every_criterion_a_task() -> None:
    assert {criterion.task for criterion in CRITERIA} == set(get_args(Task))
    assert len(BY_NAME) == len(CRITERIA)


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.name)
def test_parameters_take_a_criterion_for_its_own_task(criterion: Criterion) -> None:
    parameters = ForestParameters(task=criterion.task, criterion=criterion.name)
    assert parameters.scored_by is criterion


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.name)
def test_the_wire_code_leads_to_the_same_scores(criterion: Criterion) -> None:
    assert BY_WIRE[criterion.wire].scores is criterion.scores
    assert BY_WIRE[criterion.wire].task == criterion.task


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.name)
def test_the_type_of_a_formula_tells_whose_it_is(criterion: Criterion) -> None:
    others = [one for one in CRITERIA if one.scores is not criterion.scores]
    formula = type(criterion.scores.formula)
    assert all(type(one.scores.formula) is not formula for one in others)
    assert is_by_moments(formula) == isinstance(criterion.scores, ByMoments)
    assert not get_args(formula)


@pytest.mark.parametrize("criterion", BY_MOMENTS, ids=lambda one: one.name)
def test_a_cut_between_equal_means_scores_nothing_and_others_more(criterion: Criterion) -> None:
    a, s = np.array([2.0, 2.0, 2.0]), np.array([6.0, 7.0, 2.0])
    scores = np.empty(3)
    score_lefts(criterion.scores.formula, a, s, 8.0, 24.0, scores)
    assert scores[0] == 0.0
    assert 0.0 < scores[1] < scores[2]


@pytest.mark.parametrize("criterion", BY_MOMENTS, ids=lambda one: one.name)
def test_a_cut_scores_the_same_whichever_side_is_called_left(criterion: Criterion) -> None:
    rng = np.random.default_rng(0)
    a, s = rng.integers(1, 1000, 500), rng.integers(1, 10**6, 500)
    n, m = 1000, 10**6
    lefts, rights = np.empty(500), np.empty(500)
    formula = criterion.scores.formula
    score_lefts(formula, a.astype(float), s.astype(float), float(n), float(m), lefts)
    score_lefts(formula, (n - a).astype(float), (m - s).astype(float), float(n), float(m), rights)
    allowed = lefts != NO_SPLIT
    assert (lefts[allowed] >= 0.0).all()
    assert np.array_equal(allowed, rights != NO_SPLIT)
    assert lefts[allowed] == pytest.approx(rights[allowed], rel=1e-9)


@pytest.mark.parametrize("criterion", BY_CLASSES, ids=lambda one: one.name)
def test_the_score_in_float64_is_that_from_integers(criterion: Criterion) -> None:
    left, right = np.array([5, 0, 700]), np.array([40, 3, 1])
    scores = criterion.scores
    assert isinstance(scores, ByClasses)
    exact, heavy = score_classes_both_ways(scores.formula, left, right)
    if scores.is_squares:
        assert heavy == exact
    both = np.stack([left, right]).astype(np.float64)
    apart = scores.of_nodes(both, both.sum(axis=1))
    assert exact == pytest.approx(float(apart.sum()), rel=1e-6)
    assert math.isfinite(exact)


def test_type_checkers_are_told_the_names_of_all_entries() -> None:
    for names, task in ((ClassCriterion, "classification"), (NumberCriterion, "regression")):
        assert list(get_args(names)) == [one.name for one in CRITERIA if one.task == task]
