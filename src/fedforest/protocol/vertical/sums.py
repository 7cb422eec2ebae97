"""The sums of the labels of nodes, between the roles: packed without rows, judged on arrival.

The rows of a node follow from the bits. Sums that no rows have are refused, and so are those that
could overflow later. Where sums would be long, the coordinator adds them up from labels and bits.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import NO_LIMITS
from fedforest.kernels.sums.left_children import (
    WRONG_PART,
    WRONG_SIDES,
    WRONG_WEIGHT,
    judge_classes,
    judge_moments,
    place_class_sums,
    place_moment_sums,
)
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import NodeSums
from fedforest.tree.growth.batches import OwnRows
from fedforest.tree.table.targets import (
    TARGET_SUM_LIMIT,
    WEIGHT_SUM_LIMIT,
    TargetKind,
    TrainingTargets,
    rows_of,
    weight_of,
)

MOST_CLASSES = 6  # whose counts travel

_LIMITS = (WEIGHT_SUM_LIMIT, TARGET_SUM_LIMIT)
_EXTRA_BITS = 3  # of a number in a column of sums, beside its digits: sign and length


def are_short(labels: TrainingTargets | OwnRows) -> bool:
    """Return whether sums of left children travel beside the bits of their rows.

    Counts of few classes are less than a fifth of the gains, candidates and bits that travel
    anyway. Sums of numbers and of weights have twenty or forty bits however few rows they are of.
    Every role has the labels, and comes to the same answer.
    """
    return 0 < labels.kind.n_classes <= MOST_CLASSES and not labels.is_weighted


def estimate_bytes(sums: NDArray[np.int64], kind: TargetKind) -> float:
    """About how long sums of the left children of some nodes are, from those of the nodes."""
    sizes = np.abs(sums[:, _without_rows(kind)].astype(np.float64)).mean(axis=0)
    return len(sums) * float((np.log2(1.0 + sizes) + _EXTRA_BITS).sum()) / 8


def pack_sums(sums: NDArray[np.int64], kind: TargetKind) -> NodeSums:
    """Sums of nodes without their rows."""
    said = np.ascontiguousarray(sums[:, _without_rows(kind)])
    return NodeSums.of(said) if kind.sums == "binary" else NodeSums.of_columns(said)


def unpack_sums(packed: NodeSums, rows: NDArray[np.int64], kind: TargetKind) -> NDArray[np.int64]:
    """Sums of nodes with so many rows."""
    sums = np.empty((len(rows), kind.n_sums), np.int64)
    sums[:, _without_rows(kind)] = _read(packed, len(rows), kind)
    rows_of(sums, kind)[:] = rows
    if kind.is_regression:
        _refuse(judge_moments(sums, *_LIMITS), kind)
    else:
        _refuse(judge_classes(sums, WEIGHT_SUM_LIMIT), kind)
    return sums


class LeftSums:
    """Sums of the left children of all split nodes, which arrive owner by owner."""

    def __init__(
        self,
        kind: TargetKind,
        places: NDArray[np.int64],
        n_split: int,
        sums: NDArray[np.int64],
        least_weight: NDArray[np.int64] = NO_LIMITS,
    ) -> None:
        """`places` of split nodes among them; of open nodes, sums and what children must weigh."""
        self._kind, self._places, self._sums = kind, places, sums
        self._least_weight = least_weight
        self.left = np.empty((n_split, kind.n_sums), np.int64)

    def put(self, packed: NodeSums, nodes: NDArray[np.int64], left_rows: NDArray[np.int64]) -> None:
        """Put in place what an owner says of its nodes, whose left children have so many rows."""
        given = _read(packed, len(nodes), self._kind)
        of_nodes = (given, nodes, self._places, left_rows)
        if self._kind.is_regression:
            wrong = place_moment_sums(*of_nodes, self._sums, self.left, _LIMITS)
        else:
            wrong = place_class_sums(*of_nodes, self._sums, self.left, WEIGHT_SUM_LIMIT)
        _refuse(wrong, self._kind)
        self._refuse_light(nodes)

    def put_own(self, sums: NDArray[np.int64], nodes: NDArray[np.int64]) -> None:
        """Put in place what an owner's nodes were found to add up to, left children only."""
        self.left[self._places[nodes]] = sums
        self._refuse_light(nodes)

    def _refuse_light(self, nodes: NDArray[np.int64]) -> None:
        if not len(self._least_weight):
            return
        weight = weight_of(self.left[self._places[nodes]], self._kind)
        rest = weight_of(self._sums[nodes], self._kind) - weight
        is_enough = np.minimum(weight, rest) >= self._least_weight[nodes]
        check(bool(is_enough.all()), "a child weighs less than min_weight_fraction_leaf allows")


def _read(packed: NodeSums, n_nodes: int, kind: TargetKind) -> NDArray[np.int64]:
    """Two counts are short anyway, and are read sooner than codes that save bits."""
    read = packed.read if kind.sums == "binary" else packed.read_columns
    return read(n_nodes, kind.n_sums - 1)


def _refuse(wrong: int, kind: TargetKind) -> None:
    """Say what is wrong, if anything is."""
    part = (
        "the targets of a node add up to more than there can be"
        if kind.is_regression
        else "a class weight is negative, or more than there can be"
    )
    check(wrong != WRONG_PART, part)
    check(wrong != WRONG_WEIGHT, "a node has no weight, or too much")
    check(wrong != WRONG_SIDES, "a node has more than two sides")


def _without_rows(kind: TargetKind) -> list[int]:
    rows_at = 2 if kind.is_regression else kind.n_classes
    return [column for column in range(kind.n_sums) if column != rows_at]
