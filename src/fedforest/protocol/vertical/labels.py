"""Labels at the label party, and the forms in which they leave it.

Who learns what: under `"encoded"` every party learns which rows share a class (regression: targets
up to an unknown unit and origin; where the criterion counts from zero, up to an unknown unit), not
what the classes are. Under `RandomizedResponse` the labels given out are noisy, and nothing else
that depends on labels leaves the label party.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.criteria.registry import BY_NAME, BY_WIRE, Criterion
from fedforest.kernels.layout import MAX_MULTIPLICITY
from fedforest.kernels.prediction.walk import Leaves
from fedforest.privacy.randomized_response import RandomizedResponse, Randomness
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import (
    EncodedLabels,
    LabelScale,
    NoisyLabels,
    from_bytes,
    to_bytes,
)
from fedforest.protocol.vertical.messages import LabelsShared, ShareLabels, TakeLabels
from fedforest.protocol.vertical.out_of_bag import AnswerKey
from fedforest.tree.growth.seeds import derive_seed
from fedforest.tree.table.class_weights import weigh_classes
from fedforest.tree.table.targets import (
    MAX_CLASSES,
    TARGET_SUM_LIMIT,
    WEIGHT_SUM_LIMIT,
    TrainingTargets,
    encode_classes,
    encode_values,
    fix_weights,
    regression_targets,
)

_NOTHING = memoryview(b"")
_LABELS_TOGETHER = 1 << 20


class LabelSource(Protocol):
    """The interface to the labels of one run, at the label party."""

    @property
    def n_rows(self) -> int:
        """Return the number of labels."""

    @property
    def is_weighted(self) -> bool:
        """Return whether rows differ in weight."""

    @property
    def row_weights(self) -> NDArray[np.float64] | None:
        """Return the weights of rows, whatever their class; None if all weigh the same."""

    def scored_by(self, criterion: Criterion) -> "LabelSource":
        """Return the labels for trees of this criterion; refuse labels that do not allow it."""

    def scale(self) -> LabelScale:
        """Return what the coordinator must know to write leaves."""

    def share(self, request: ShareLabels, randomness: Randomness) -> tuple[LabelsShared, AnswerKey]:
        """Return the labels, protected as asked, and those that votes are compared with."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassLabels:
    """Labels that are classes: their numbers, with weights of rows and of classes."""

    classes: NDArray[np.integer]
    n_classes: int
    row_weights: NDArray[np.float64] | None = None
    class_weights: NDArray[np.float64] | str | None = None  # per class, or "balanced"

    @property
    def n_rows(self) -> int:
        """Return the number of labels."""
        return len(self.classes)

    @property
    def is_weighted(self) -> bool:
        """Return whether rows differ in weight."""
        return self.row_weights is not None or self.class_weights is not None

    def scored_by(self, criterion: Criterion) -> "ClassLabels":
        """Return the labels: every criterion of classes takes all classes."""
        check(criterion.task == "classification", "the criterion is of another task")
        return self

    def scale(self) -> LabelScale:
        """Return the number of classes."""
        return LabelScale(self.n_classes)

    def share(self, request: ShareLabels, randomness: Randomness) -> tuple[LabelsShared, AnswerKey]:
        """Encode the classes, noisy if asked; weights follow the label that leaves."""
        codes = np.array(request.code_of_class, np.int64)
        check(
            bool(np.array_equal(np.sort(codes), np.arange(self.n_classes))),
            "the codes asked for are not one for each class",
        )
        if request.epsilon is None:
            labels = EncodedLabels(*self._encode(self.classes, codes))
            return LabelsShared(labels=labels), AnswerKey(self.classes, self.n_classes)
        response = RandomizedResponse(request.epsilon)
        check(response.is_usable, "the label privacy asked for cannot be had")
        noisy = response.draw(self.classes, self.n_classes, randomness)
        shared = LabelsShared(noisy_labels=NoisyLabels(*self._encode(noisy, codes)))
        return shared, AnswerKey(noisy, self.n_classes, response)

    def _encode(
        self, classes: NDArray[np.integer], code_of_class: NDArray[np.int64]
    ) -> tuple[memoryview, memoryview, memoryview]:
        weights = self._weigh(classes)
        narrow = code_of_class.astype(code_type(self.n_classes))
        codes = to_bytes(narrow[classes], code_type(self.n_classes))
        return codes, _NOTHING, _NOTHING if weights is None else to_bytes(weights, "<i8")

    def _weigh(self, classes: NDArray[np.integer]) -> NDArray[np.int64] | None:
        if self.class_weights is None:
            return None if self.row_weights is None else fix_weights(self.row_weights)[0]
        rows = np.ones(len(classes)) if self.row_weights is None else self.row_weights
        if isinstance(self.class_weights, str):
            counts = np.bincount(classes, minlength=self.n_classes)
            per_class = len(classes) / (self.n_classes * np.maximum(counts, 1))
        else:
            per_class = self.class_weights
        weights = rows * per_class[classes]
        # as on one table: where all weigh one, nobody has a weight
        return None if bool((weights == 1.0).all()) else fix_weights(weights)[0]


@dataclass(frozen=True, slots=True, eq=False)
class TargetValues:
    """Labels that are numbers, with weights of rows."""

    values: NDArray[np.float64]
    row_weights: NDArray[np.float64] | None = None
    criterion: Criterion = BY_NAME["squared_error"]

    @property
    def n_rows(self) -> int:
        """Return the number of targets."""
        return len(self.values)

    @property
    def is_weighted(self) -> bool:
        """Return whether rows differ in weight."""
        return self.row_weights is not None

    def scored_by(self, criterion: Criterion) -> "TargetValues":
        """Return the targets, counted from zero where the criterion counts so."""
        check(criterion.task == "regression", "the criterion is of another task")
        return replace(self, criterion=criterion)

    def scale(self) -> LabelScale:
        """Return unit and origin of the fixed-point targets."""
        kind = self._targets().kind
        return LabelScale(0, kind.target_unit, kind.target_offset)

    def share(
        self,
        request: ShareLabels,
        randomness: Randomness,  # noqa: ARG002 - nothing is noisy
    ) -> tuple[LabelsShared, AnswerKey]:
        """Return the targets as integers around the middle of their range, or from zero."""
        check(request.epsilon is None, "noise protects classes; targets can only be encoded")
        check(not request.code_of_class, "codes are asked for, but there are no classes")
        kernel = self._targets().kernel
        levels, weights = to_bytes(kernel.levels, "<i8"), to_bytes(kernel.weights, "<i8")
        shared = LabelsShared(labels=EncodedLabels(_NOTHING, levels, weights))
        return shared, AnswerKey(self.values, 0)

    def _targets(self) -> TrainingTargets:
        return regression_targets(self.values, self.row_weights, self.criterion)


def number_classes(
    labels: NDArray[Any],
    row_weights: NDArray[np.float64] | None,
    class_weight: Any,
    known: NDArray[Any] | None = None,
) -> tuple[ClassLabels, NDArray[Any]]:
    """Number the classes of labels of any type; return the labels, and the classes in order.

    `known` are the classes of the training that a warm start continues. `class_weight` is as in
    scikit-learn: None, "balanced", or a mapping from class to weight.
    """
    spans = [
        slice(first, first + _LABELS_TOGETHER) for first in range(0, len(labels), _LABELS_TOGETHER)
    ]
    classes = np.unique(np.concatenate([labels[:0], *(np.unique(labels[span]) for span in spans)]))
    if known is not None:
        if not set(classes.tolist()) <= set(known.tolist()):
            raise DataError.stating(
                "a warm start cannot learn classes that the earlier training did not have; train "
                "anew (in Python with warm_start=False)."
            )
        classes = known
    code: type[np.integer] = np.uint16 if len(classes) <= MAX_CLASSES else np.int64
    codes: NDArray[np.integer] = np.empty(len(labels), code)
    for span in spans:  # what takes eight bytes a label takes them for few labels at once
        codes[span] = np.searchsorted(classes, labels[span])
    class_weights = weigh_classes(class_weight, classes)
    return ClassLabels(codes, len(classes), row_weights, class_weights), classes


def code_type(n_classes: int) -> str:
    """Return the type of a class code in messages."""
    return "u1" if n_classes <= 256 else "<u2"


def draw_codes(seed: int, n_classes: int) -> tuple[int, ...]:
    """Draw a secret code for each class: a permutation that the run's seed decides."""
    order = sorted(range(n_classes), key=lambda number: derive_seed(seed, "class codes", number))
    code_of_class = [0] * n_classes
    for code, number in enumerate(order):
        code_of_class[number] = code
    return tuple(code_of_class)


def read_criterion(wire: str) -> Criterion:
    """Return the criterion of a code that came in a message."""
    check(wire in BY_WIRE, "the criterion is unknown")
    return BY_WIRE[wire]


def read_labels(request: TakeLabels, n_rows: int) -> TrainingTargets:
    """Read labels for the kernels; refuse those whose sums could overflow."""
    labels, n_classes = request.labels, request.n_classes
    check(n_classes <= MAX_CLASSES, "there are too many classes")
    criterion = read_criterion(request.criterion)
    check((criterion.task == "regression") == (n_classes == 0), "the criterion is of another task")
    weights, largest_weight = None, 1
    if len(labels.weights):
        weights = from_bytes(labels.weights, "<i8", n_rows, "weights")
        check(bool((weights >= 0).all() and weights.any()), "weights are negative or all zero")
        largest_weight = int(weights.max())
    total = largest_weight * n_rows * MAX_MULTIPLICITY
    check(weights is None or total <= WEIGHT_SUM_LIMIT, "weights are too large to be added up")
    if n_classes == 0:
        levels = from_bytes(labels.levels, "<i8", n_rows, "targets")
        largest_level = max(-int(levels.min(initial=0)), int(levels.max(initial=0)))
        check(largest_level * total <= TARGET_SUM_LIMIT, "targets are too large to be added up")
        is_counted = not criterion.scores.from_zero or bool((levels >= 0).all() and levels.any())
        check(is_counted, "targets are not counted from zero")
        return encode_values(levels, weights, criterion=criterion)
    codes = from_bytes(labels.codes, code_type(n_classes), n_rows, "class codes")
    check(bool((codes < n_classes).all()), "a class code is out of range")
    return encode_classes(codes, n_classes, weights, criterion)


def debias_leaves(leaves: Leaves, response: RandomizedResponse, n_classes: int) -> Leaves:
    """Estimate leaves of true labels from those of noisy ones; fractions below zero become zero.

    The largest fraction of a leaf stays above zero: those of all classes still add up to one.
    """
    n_nodes = len(leaves.start) - 1
    leaf = np.repeat(np.arange(n_nodes), np.diff(leaves.start))
    share = response.debias(leaves.value, n_classes)
    kept = share > 0.0
    leaf, label, share = leaf[kept], leaves.label[kept], share[kept]
    total = np.bincount(leaf, share, minlength=n_nodes)
    count = np.bincount(leaf, minlength=n_nodes)
    return Leaves(np.concatenate([[0], np.cumsum(count)]), label, share / total[leaf])
