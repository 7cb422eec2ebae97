"""Labels of horizontal training: their declaration and their encoding by all parties.

Targets and weights become integers on a scale that follows from powers of two that parties declare,
so that sums over any parties are exact and the same as over one table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError, DataError, ProtocolError
from fedforest.kernels.criteria.registry import BY_NAME, BY_WIRE, Criterion
from fedforest.kernels.layout import MAX_MULTIPLICITY
from fedforest.privacy.global_dp import TargetGrid
from fedforest.protocol.asking import blame, check
from fedforest.protocol.horizontal.messages import AgreeOnTable, TableDeclared
from fedforest.protocol.horizontal.payloads import DeclaredLabels
from fedforest.tree.table.class_labels import are_fit_for_names, pack_labels, unpack_labels
from fedforest.tree.table.class_union import find_codes, merge_classes
from fedforest.tree.table.target_checks import check_not_below_zero, none_above_zero
from fedforest.tree.table.targets import (
    TARGET_BITS,
    WEIGHT_BITS,
    WEIGHT_SUM_LIMIT,
    TrainingTargets,
    encode_classes,
    encode_values,
)

_GINI = BY_NAME["gini"]  # any criterion will do: only the coordinator scores sums
NO_WEIGHT = -1074  # the exponent of a party whose rows all weigh nothing
LARGEST_EXPONENT = 900  # of targets: squares of sums still fit a float64
SUM_LIMIT = 2**59  # of targets: a prime field of 2^61 - 1 holds such sums with their sign


@dataclass(frozen=True, eq=False)
class PartyLabels:
    """A party's own labels: unencoded classes, or targets; and weights, if rows have any."""

    values: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    is_regression: bool = False
    whole: NDArray[Any] | None = None  # of the whole table, where classes of fewer rows would tell

    def declare(
        self, criterion: str | None = None, bounds: tuple[float, float] | None = None
    ) -> DeclaredLabels:
        """Declare class names, or magnitudes as powers of two; no counts of rows.

        With declared bounds, only those: own targets are not looked at.
        Refuse targets below zero if the criterion needs none; targets of all zero have no size.
        """
        weights = None
        if self.weights is not None:
            weights = _exponent(self.weights) if (self.weights > 0.0).any() else NO_WEIGHT
        if self.is_regression:
            counted = self._counted_by(criterion) if bounds is None else np.array(bounds)
            return DeclaredLabels("", (), _exponent(counted), weights)
        classes = self._classes[0] if self.whole is None else np.unique(self.whole)
        packed: Any = pack_labels(classes)
        return DeclaredLabels(packed["dtype"], tuple(packed["labels"]), None, weights)

    def encode(self, agreed: AgreeOnTable) -> TrainingTargets:
        """Encode the labels as integers on the common scale."""
        weights = None
        if agreed.weight_unit > 0.0:
            weights = fix_to_unit(self._weights(), agreed.weight_unit)
        if self.is_regression:
            levels = self._levels(agreed)
            return encode_values(levels, weights, agreed.target_unit, agreed.target_offset)
        classes = read_classes(agreed.class_dtype, agreed.classes)
        if self.whole is not None:  # or a refusal would tell which classes some rows lack
            find_codes(np.unique(self.whole), classes)
        own, places = self._classes
        return encode_classes(find_codes(own, classes)[places], len(classes), weights, _GINI)

    @cached_property
    def _classes(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes that occur, and which of them each row has."""
        return np.unique(self.values, return_inverse=True)

    def _levels(self, agreed: AgreeOnTable) -> NDArray[np.int64]:
        targets = self.values.astype(np.float64)
        if agreed.protection.kind:  # clips to the declared bounds
            return TargetGrid.of((agreed.protection.low, agreed.protection.high)).levels(targets)
        return np.rint(targets / agreed.target_unit).astype(np.int64)

    def _counted_by(self, wire: str | None) -> NDArray[np.float64]:
        """Return the targets whose magnitude matters to the criterion with this wire code."""
        check(wire is None or wire in BY_WIRE, "the criterion is unknown")
        if wire is None or not BY_WIRE[wire].scores.from_zero:
            return self.values
        check_not_below_zero(self.values, BY_WIRE[wire].name)
        weighs = np.True_ if self.weights is None else self.weights > 0.0
        return self.values[weighs & (self.values > 0.0)]

    def _weights(self) -> NDArray[np.float64]:
        return np.ones(len(self.values)) if self.weights is None else self.weights


def fix_to_unit(weights: NDArray[np.float64], unit: float) -> NDArray[np.int64]:
    """Round weights to whole units; a positive weight never becomes zero."""
    fixed = np.rint(weights / unit).astype(np.int64)
    fixed[(fixed == 0) & (weights > 0.0)] = 1
    return fixed


def _exponent(values: NDArray[np.float64]) -> int | None:
    """Return the exponent of the power of two above all magnitudes; None for no values."""
    if len(values) == 0:
        return None
    return int(math.frexp(float(np.abs(values).max()))[1])


@dataclass(frozen=True, slots=True, eq=False)
class LabelUnion:
    """The common classes or scales of all parties' labels."""

    classes: NDArray[Any] | None  # None for targets
    class_dtype: str
    target_unit: float
    target_offset: float
    weight_unit: float  # 0 where all rows weigh one

    @property
    def n_classes(self) -> int:
        """Classes; none for targets."""
        return 0 if self.classes is None else len(self.classes)


def unite_labels(
    prepared: Mapping[str, TableDeclared],
    criterion: Criterion,
    bounds: tuple[float, float] | None,
) -> LabelUnion:
    """Find one scale, or one list of classes, for all parties."""
    declared = {party: reply.labels for party, reply in prepared.items()}
    n_rows = sum(reply.size.n_rows for reply in prepared.values())
    weight_unit, heaviest = _weight_scale(declared, n_rows)
    if criterion.task == "classification":
        classes = merge_classes({party: _read(party, labels) for party, labels in declared.items()})
        packed: Any = pack_labels(classes)
        return LabelUnion(classes, packed["dtype"], 1.0, 0.0, weight_unit)
    sizes = [labels.target_exponent for labels in declared.values()]
    if criterion.scores.from_zero and all(size is None for size in sizes):
        raise none_above_zero(criterion.name)
    unit, offset = _target_scale(declared, n_rows * heaviest, bounds)
    return LabelUnion(None, "", unit, offset, weight_unit)


def _weight_scale(declared: Mapping[str, DeclaredLabels], n_rows: int) -> tuple[float, int]:
    """Return the unit of weights, and the most that one row can weigh with all its draws."""
    exponents = [labels.weight_exponent for labels in declared.values()]
    given = [exponent for exponent in exponents if exponent is not None]
    if not given:
        return 0.0, MAX_MULTIPLICITY
    if max(given) == NO_WEIGHT and len(given) == len(exponents):
        raise DataError.stating(
            "No rows are left: every sample weight is zero. Give some rows weight."
        )
    largest = max(1, *given)  # parties without weights weigh their rows as one
    room = WEIGHT_SUM_LIMIT // (MAX_MULTIPLICITY * max(1, n_rows))
    bits = min(WEIGHT_BITS, room.bit_length() - 1)
    return math.ldexp(1.0, largest - bits), MAX_MULTIPLICITY << bits


def _target_scale(
    declared: Mapping[str, DeclaredLabels],
    largest_weight: int,
    bounds: tuple[float, float] | None,
) -> tuple[float, float]:
    """Return the unit and origin of targets, so that no sum of them can overflow."""
    if bounds is not None:
        grid = TargetGrid.of(bounds)
        return grid.unit, grid.offset
    known = [
        labels.target_exponent for labels in declared.values() if labels.target_exponent is not None
    ]
    exponent = max(known, default=0)
    if exponent > LARGEST_EXPONENT:
        raise DataError(
            f"a party has targets beyond 2^{LARGEST_EXPONENT}; train on them in a larger unit"
        )
    bits = min(TARGET_BITS, (SUM_LIMIT // max(1, largest_weight)).bit_length() - 1)
    return math.ldexp(1.0, max(exponent - bits, -1060)), 0.0


def _read(party: str, labels: DeclaredLabels) -> NDArray[Any]:
    with blame(party):
        check(
            are_fit_for_names(labels.classes),
            "a class label holds a control character or a mark of direction; name the class anew",
        )
        try:
            return read_classes(labels.dtype, labels.classes)
        except DamagedModelError:
            raise ProtocolError.stating("its class labels cannot be read") from None


def read_classes(dtype: str, classes: tuple[Any, ...]) -> NDArray[Any]:
    """Decode declared class labels."""
    return unpack_labels({"dtype": dtype, "labels": list(classes)})
