"""Labels, regression targets and row weights as integers, made once per training.

Weights and targets become int64 fixed point, so every later sum is exact and does not depend on the
order, thread, shard, party or machine that adds it up. The scale leaves headroom: no sum over any
bootstrap sample can overflow.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.criteria.registry import (
    BY_NAME,
    LEAST_SQUARES,
    ByClasses,
    ByMoments,
    Criterion,
)
from fedforest.kernels.layout import MAX_MULTIPLICITY, NO_LIMITS, Targets
from fedforest.kernels.sums.nodes import weigh_nodes
from fedforest.tree.table.target_checks import check_from_zero

MAX_CLASSES = 1000
WEIGHT_SUM_LIMIT = 2**52  # sums of weights stay exact when they become float64
TARGET_SUM_LIMIT = 2**62
TARGET_BITS = 40  # resolution of a target, headroom permitting: half the range / 2^40
WEIGHT_BITS = 20  # resolution of a weight, headroom permitting: the largest / 2^20

Statistic = Literal["binary", "moments", "classes"]
_GINI, _SQUARED_ERROR = BY_NAME["gini"], BY_NAME["squared_error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetKind:
    """The meaning of sums over labels: all that decisions about nodes need, without labels.

    `search` names the statistic that scores splits, `sums` the one that describes a node.
    """

    search: Statistic
    sums: Statistic
    criterion: Criterion
    n_classes: int  # 0 for regression
    target_unit: float = 1.0  # real target = target_offset + fixed point * target_unit
    target_offset: float = 0.0
    code_of_class: tuple[int, ...] = ()  # where labels are encoded: the code of each class

    @property
    def is_regression(self) -> bool:
        """Whether leaves hold a mean instead of class fractions."""
        return self.sums == "moments"

    @property
    def scores(self) -> ByMoments | ByClasses:
        """Return how splits are scored; two classes searched by moments are scored as numbers."""
        is_own = self.search == "classes" or self.is_regression
        return self.criterion.scores if is_own else LEAST_SQUARES

    def with_codes(self, code_of_class: tuple[int, ...]) -> "TargetKind":
        """Return the kind for labels encoded by these codes."""
        return replace(self, code_of_class=code_of_class)

    @property
    def n_sums(self) -> int:
        """Integers that describe a node: class weights and rows, or moments, rows and purity."""
        return 4 if self.is_regression else self.n_classes + 1


@dataclass(frozen=True, slots=True)
class TrainingTargets:
    """The label and weight of every row, for the kernels."""

    kind: TargetKind
    classes: NDArray[np.uint16]  # class code per row; empty for regression
    allowed: NDArray[np.bool_]  # rows with a positive weight
    kernel: Targets

    @property
    def n_rows(self) -> int:
        """Rows of the table, those without weight included."""
        return len(self.allowed)

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return len(self.kernel.weights) > 0


def classification_targets(
    codes: NDArray[np.integer],
    n_classes: int,
    weights: NDArray[np.float64] | None = None,
    criterion: Criterion = _GINI,
) -> TrainingTargets:
    """Make targets from class codes 0..n_classes-1, optionally weighted."""
    if n_classes > MAX_CLASSES:
        raise DataError.of("target.classes", n_classes=n_classes, limit=MAX_CLASSES)
    fixed = None if weights is None else fix_weights(weights)[0]
    return encode_classes(codes, n_classes, fixed, criterion)


def encode_classes(
    codes: NDArray[np.integer],
    n_classes: int,
    weights: NDArray[np.int64] | None,
    criterion: Criterion,
) -> TrainingTargets:
    """Make targets from class codes and fixed-point weights."""
    classes = np.ascontiguousarray(codes, np.uint16)
    fixed, allowed = _spread_weights(weights, len(classes))
    nothing = np.zeros(0, np.int64)
    kernel = Targets(n_classes, fixed, nothing, nothing)
    search: Statistic = "classes"
    sums: Statistic = "classes"
    if n_classes == 2 and criterion.scores == _GINI.scores:
        if weights is None:
            search = sums = "binary"
        else:
            search = "moments"
            kernel = Targets(n_classes, fixed, fixed * classes, nothing)
    kind = TargetKind(search=search, sums=sums, criterion=criterion, n_classes=n_classes)
    return TrainingTargets(kind, classes, allowed, kernel)


def regression_targets(
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    criterion: Criterion = _SQUARED_ERROR,
) -> TrainingTargets:
    """Make targets from finite real values, optionally weighted."""
    from_zero = criterion.scores.from_zero
    if from_zero:
        check_from_zero(values, weights, criterion.name)
    fixed = None if weights is None else fix_weights(weights)[0]
    largest_weight = MAX_MULTIPLICITY * (1 if fixed is None else int(fixed.max()))
    levels, unit, offset = fix_targets(values, len(values) * largest_weight, from_zero=from_zero)
    return encode_values(levels, fixed, unit, offset, criterion)


def encode_values(
    levels: NDArray[np.int64],
    weights: NDArray[np.int64] | None,
    target_unit: float = 1.0,
    target_offset: float = 0.0,
    criterion: Criterion = _SQUARED_ERROR,
) -> TrainingTargets:
    """Make targets from fixed-point values and weights; sums alone do not need the unit."""
    fixed, allowed = _spread_weights(weights, len(levels))
    kernel = Targets(0, fixed, levels * fixed if len(fixed) else levels, levels)
    kind = TargetKind(
        search="moments",
        sums="moments",
        criterion=criterion,
        n_classes=0,
        target_unit=target_unit,
        target_offset=target_offset,
    )
    return TrainingTargets(kind, np.zeros(0, np.uint16), allowed, kernel)


def _spread_weights(
    weights: NDArray[np.int64] | None, n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return weights for the kernels, empty where all are one, and the rows with weight."""
    if weights is None:
        return np.zeros(0, np.int64), np.ones(n_rows, np.bool_)
    return weights, weights > 0


def rows_of(sums: NDArray[np.int64], kind: TargetKind) -> NDArray[np.int64]:
    """Return the number of rows from the integers that describe a node.

    These are (class weights ..., rows) or (weight, sum, rows, pure sides).
    """
    return sums[:, 2] if kind.is_regression else sums[:, -1]


def weight_of(sums: NDArray[np.int64], kind: TargetKind) -> NDArray[np.int64]:
    """Return the weight from the integers that describe a node."""
    return sums[:, 0] if kind.is_regression else weigh_nodes(sums)


def least_leaf_weight(root_weight: NDArray[np.float64], share: float) -> NDArray[np.int64]:
    """Return the least weight of a leaf of each tree, from a fraction of its root's weight.

    Every role that knows the root's weight gets the same number.
    """
    if share <= 0.0:
        return NO_LIMITS
    return np.ceil(share * root_weight).astype(np.int64)


def fix_weights(weights: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Convert weights to integers; return them and the real weight of one unit.

    Only ratios matter, so the largest weight decides the unit, a power of two: whole-number
    weights stay exact where they fit. A positive weight never becomes zero, a zero stays zero.
    """
    largest = float(weights.max(initial=0.0))
    if largest <= 0.0:
        raise DataError.stating(
            "No rows are left: every sample weight is zero. Give some rows weight."
        )
    room = WEIGHT_SUM_LIMIT // (MAX_MULTIPLICITY * max(1, len(weights)))
    bits = min(WEIGHT_BITS, room.bit_length() - 1)
    exponent = bits - math.frexp(largest)[1]
    fixed = np.rint(np.ldexp(weights, exponent)).astype(np.int64)
    fixed[(fixed == 0) & (weights > 0)] = 1
    return fixed, math.ldexp(1.0, -exponent)


def fix_targets(
    values: NDArray[np.float64], largest_total_weight: int, *, from_zero: bool = False
) -> tuple[NDArray[np.int64], float, float]:
    """Convert targets to integers around an origin; return them, the real unit and the origin.

    The origin is the middle of their range or, where a criterion counts from it, zero. The unit is
    a power of two, so the real value of a fixed-point number is exact.
    """
    high = float(values.max())
    low = -high if from_zero else float(values.min())
    middle = low / 2 + high / 2
    half_range = high / 2 - low / 2
    if half_range == 0.0:
        return np.zeros(len(values), np.int64), 1.0, low
    room = max(2, TARGET_SUM_LIMIT // max(1, largest_total_weight))
    bits = min(TARGET_BITS, room.bit_length() - 2)
    exponent = bits - math.frexp(half_range)[1]
    # halves first: the difference of the extremes may exceed the largest float
    halves = np.ldexp(values, -1) - middle / 2
    levels = np.rint(np.ldexp(halves, exponent + 1)).astype(np.int64)
    return levels, math.ldexp(1.0, -exponent), middle
