"""Labels of horizontal training: what a party declares of them and how all parties encode them.

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
from fedforest.kernels.layout import MAX_MULTIPLICITY
from fedforest.privacy.global_dp import TargetGrid
from fedforest.protocol.asking import blame, check
from fedforest.protocol.horizontal.messages import AgreeOnTable, Prepared
from fedforest.protocol.horizontal.payloads import DeclaredLabels
from fedforest.tree.class_labels import pack_labels, unpack_labels
from fedforest.tree.class_union import find_codes, merge_classes
from fedforest.tree.targets import (
    MAX_CLASSES,
    TARGET_BITS,
    WEIGHT_BITS,
    WEIGHT_SUM_LIMIT,
    TrainingTargets,
    encode_classes,
    encode_values,
)

NO_WEIGHT = -1074  # the exponent of a party whose rows all weigh nothing
LARGEST_EXPONENT = 900  # of targets: squares of sums have room in a float64 then
SUM_LIMIT = 2**59  # of targets: a prime field of 2^61 - 1 holds such sums with their sign


@dataclass(frozen=True, eq=False)
class PartyLabels:
    """A party's own labels: classes as they are, or targets; weights where rows differ in them."""

    values: NDArray[Any]
    weights: NDArray[np.float64] | None = None
    is_regression: bool = False

    def declare(self) -> DeclaredLabels:
        """Classes by name, or sizes as powers of two; nothing about how many rows have which."""
        weights = None
        if self.weights is not None:
            weights = _exponent(self.weights) if (self.weights > 0.0).any() else NO_WEIGHT
        if self.is_regression:
            return DeclaredLabels("", (), _exponent(self.values), weights)
        packed: Any = pack_labels(self._classes[0])
        return DeclaredLabels(packed["dtype"], tuple(packed["labels"]), None, weights)

    def encode(self, agreed: AgreeOnTable) -> TrainingTargets:
        """The labels as integers on the common scale."""
        weights = None
        if agreed.weight_unit > 0.0:
            weights = fix_to_unit(self._weights(), agreed.weight_unit)
        if self.is_regression:
            levels = self._levels(agreed)
            return encode_values(levels, weights, agreed.target_unit, agreed.target_offset)
        classes = read_classes(agreed.class_dtype, agreed.classes)
        own, places = self._classes
        return encode_classes(find_codes(own, classes)[places], len(classes), weights, "gini")

    @cached_property
    def _classes(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes that occur, and which of them each row has."""
        return np.unique(self.values, return_inverse=True)

    def _levels(self, agreed: AgreeOnTable) -> NDArray[np.int64]:
        targets = self.values.astype(np.float64)
        if agreed.protection.kind:  # what lies outside the declared bounds is moved to them
            return TargetGrid.of((agreed.protection.low, agreed.protection.high)).levels(targets)
        return np.rint(targets / agreed.target_unit).astype(np.int64)

    def _weights(self) -> NDArray[np.float64]:
        return np.ones(len(self.values)) if self.weights is None else self.weights


def fix_to_unit(weights: NDArray[np.float64], unit: float) -> NDArray[np.int64]:
    """Weights in whole units; a positive weight never becomes zero."""
    fixed = np.rint(weights / unit).astype(np.int64)
    fixed[(fixed == 0) & (weights > 0.0)] = 1
    return fixed


def _exponent(values: NDArray[np.float64]) -> int | None:
    """The power of two that no size reaches."""
    if len(values) == 0:
        return None
    return int(math.frexp(float(np.abs(values).max()))[1])


@dataclass(frozen=True, slots=True, eq=False)
class LabelUnion:
    """What the labels of all parties have in common."""

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
    prepared: Mapping[str, Prepared], *, is_regression: bool, bounds: tuple[float, float] | None
) -> LabelUnion:
    """One scale, or one list of classes, for all parties."""
    declared = {party: reply.labels for party, reply in prepared.items()}
    n_rows = sum(reply.size.n_rows for reply in prepared.values())
    weight_unit, heaviest = _weight_scale(declared, n_rows)
    if not is_regression:
        classes = merge_classes({party: _read(party, labels) for party, labels in declared.items()})
        packed: Any = pack_labels(classes)
        return LabelUnion(classes, packed["dtype"], 1.0, 0.0, weight_unit)
    unit, offset = _target_scale(declared, n_rows * heaviest, bounds)
    return LabelUnion(None, "", unit, offset, weight_unit)


def _weight_scale(declared: Mapping[str, DeclaredLabels], n_rows: int) -> tuple[float, int]:
    """The unit of weights, and the most that one row can weigh in it, drawn as often as may be."""
    exponents = [labels.weight_exponent for labels in declared.values()]
    given = [exponent for exponent in exponents if exponent is not None]
    if not given:
        return 0.0, MAX_MULTIPLICITY
    if max(given) == NO_WEIGHT and len(given) == len(exponents):
        raise DataError("No rows are left: every sample weight is zero. Give some rows weight.")
    largest = max(1, *given)  # parties without weights weigh their rows as one
    room = WEIGHT_SUM_LIMIT // (MAX_MULTIPLICITY * max(1, n_rows))
    bits = min(WEIGHT_BITS, room.bit_length() - 1)
    return math.ldexp(1.0, largest - bits), MAX_MULTIPLICITY << bits


def _target_scale(
    declared: Mapping[str, DeclaredLabels],
    largest_weight: int,
    bounds: tuple[float, float] | None,
) -> tuple[float, float]:
    """The unit and origin of targets; no sum of them can overflow."""
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
        check(len(labels.classes) <= MAX_CLASSES, "there are too many classes")
        try:
            return read_classes(labels.dtype, labels.classes)
        except DamagedModelError:
            raise ProtocolError("its class labels cannot be read") from None


def read_classes(dtype: str, classes: tuple[Any, ...]) -> NDArray[Any]:
    """Class labels as they were declared."""
    return unpack_labels({"dtype": dtype, "labels": list(classes)})
