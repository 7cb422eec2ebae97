"""The criteria by which splits are scored: one entry each, and one file with its functions.

Everything else asks here: parameters for names, messages for wire codes, kernels for functions
(`dispatch`), growth for the impurity that a score stands for. How to add one: CONTRIBUTING.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.entropy import (
    Entropy,
    information_of_nodes,
    look_up,
    make_entropy_table,
    score_heavy_information,
    score_information,
)
from fedforest.kernels.criteria.gini import (
    Gini,
    make_no_table,
    purity_of_nodes,
    score_heavy_squares,
    score_squared_classes,
    square,
    square_heavy,
)
from fedforest.kernels.criteria.information import x_log2_x
from fedforest.kernels.criteria.poisson import Poisson, score_deviance
from fedforest.kernels.criteria.squared_error import SquaredError, score_squares

# for type checkers; the entries below have these names
ClassCriterion = Literal["gini", "entropy", "log_loss"]
NumberCriterion = Literal["squared_error", "poisson"]

Function = Callable[..., Any]  # a kernel that is compiled into those that score
OfNodes = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class ByMoments(NamedTuple):
    """Scores from weights and sums of targets; decrease of impurity = score / weight^2."""

    formula: NamedTuple  # what kernels are told: its type chooses the functions
    score: Function  # (a, s, n, m) of the left side and the node, float64; NO_SPLIT: not allowed
    unit_power: int  # the decrease is in units of the target to this power
    from_zero: bool = False  # targets are counted from zero; none is below, some are above
    make_table: Function = make_no_table


class ByClasses(NamedTuple):
    """Scores from S, a sum over classes, and the weight of either side.

    S is exact in int64; nodes as heavy as `EXACT_WEIGHT` would overflow: there it is a float64 sum
    over the classes in ascending order.
    """

    formula: NamedTuple
    make_table: Function  # () what `part` and `score` look up
    part: Function  # (x, table) what a class of weight x adds to S
    score: Function  # (S left, S right, weight left, weight right, table)
    heavy_part: Function  # (x) and the same in float64
    heavy_score: Function  # (S left, S right, weight left, weight right)
    of_nodes: OfNodes  # (class weights, weight) the score of nodes that are not divided
    is_squares: bool = False  # S is a sum of squares: the fast searches for those are right
    from_zero: bool = False


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion: its name for users, its task, its code on the wire, its scores."""

    name: str
    task: str
    wire: str
    scores: ByMoments | ByClasses

    def __reduce__(self) -> tuple[Function, tuple[str]]:
        return criterion_named, (self.name,)  # its functions belong to each process


def criterion_named(name: str) -> "Criterion":
    """Return a criterion by its name for users."""
    return BY_NAME[name]


LEAST_SQUARES = ByMoments(SquaredError(), score_squares, unit_power=2)
DEVIANCE = ByMoments(Poisson(), score_deviance, unit_power=1, from_zero=True)
GINI = ByClasses(
    Gini(),
    make_no_table,
    square,
    score_squared_classes,
    square_heavy,
    score_heavy_squares,
    purity_of_nodes,
    is_squares=True,
)
INFORMATION = ByClasses(
    Entropy(),
    make_entropy_table,
    look_up,
    score_information,
    x_log2_x,
    score_heavy_information,
    information_of_nodes,
)

CRITERIA = (
    Criterion("gini", "classification", "gini", GINI),
    Criterion("entropy", "classification", "entropy", INFORMATION),
    Criterion("log_loss", "classification", "entropy", INFORMATION),
    Criterion("squared_error", "regression", "variance", LEAST_SQUARES),
    Criterion("poisson", "regression", "poisson", DEVIANCE),
)
BY_NAME = {criterion.name: criterion for criterion in CRITERIA}
# names that mean the same have one code; the first of them is told
BY_WIRE = {criterion.wire: criterion for criterion in reversed(CRITERIA)}


def scores_of(formula: type) -> Any:
    """Return the functions that a formula's type chooses."""
    found = {type(criterion.scores.formula): criterion.scores for criterion in CRITERIA}
    return found[formula]
