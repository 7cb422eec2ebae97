"""Decode sums over all parties: from integers on the wire to the statistics of nodes.

One side of a cut is a short row of integers on the wire. Without noise they are exact. With noise
they are first turned into the class counts that most likely gave them, in small fractions of a row.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import Criterion
from fedforest.kernels.noise.decoding import decode_sums, mend_sums
from fedforest.kernels.sums.checks import are_class_weights, lies_between
from fedforest.privacy.decoding import make_decoder
from fedforest.privacy.global_dp import GlobalDP, TargetGrid
from fedforest.privacy.local_dp import LocalDP, ResponseCode
from fedforest.protocol.asking import check
from fedforest.protocol.horizontal.labels import SUM_LIMIT, LabelUnion
from fedforest.tree.growth.cut_choice import SideLayout
from fedforest.tree.table.targets import WEIGHT_SUM_LIMIT, TargetKind, fix_weights
from fedforest.tree.workers import Workers

ROW_UNITS = 2**10  # noisy counts of rows are kept in this fraction
MOST_ROWS = 2**32  # of noisy counts: their fractions, times class weights, stay exact
SIDES_WORTH_A_THREAD = 2**13  # fewer are decoded sooner than another thread starts


class Counting(Protocol):
    """The wire format of one side of a cut, and its decoding."""

    @property
    def width(self) -> int:
        """Integers of one side on the wire."""

    @property
    def layout(self) -> SideLayout:
        """Integers of one side after decoding."""

    def read(self, wire: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:
        """Decode (sides, width) from the wire into (sides, layout's width)."""


@dataclass(frozen=True, slots=True)
class ExactSums:
    """Class weights, or weight and sum of targets; exact."""

    layout: SideLayout

    @property
    def width(self) -> int:
        return self.layout.width

    def read(self, wire: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:  # noqa: ARG002
        if self.layout.n_classes:
            # fast check: usually no class weighs so much that the sum matters
            most = WEIGHT_SUM_LIMIT // self.layout.n_classes
            is_sound = wire.flags.c_contiguous and lies_between(wire.reshape(-1), 0, most)
            n_classes = self.layout.n_classes
            is_sound = is_sound or are_class_weights(wire, n_classes, WEIGHT_SUM_LIMIT)
            check(bool(is_sound), "classes weigh less than nothing, or more than rows can")
        else:
            _check_targets(wire)
        return wire


@dataclass(frozen=True, slots=True)
class NoisyTargets:
    """(rows, noisy sum of targets): a mean never leaves the declared bounds of targets."""

    largest_target: int  # in units
    layout = SideLayout(0, rows_apart=False)
    width = 2

    def read(self, wire: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:  # noqa: ARG002
        rows = wire[:, 0]
        check(bool(lies_between(rows, 0, MOST_ROWS)), "a side has fewer than no rows, or too many")
        bound = rows * self.largest_target
        return np.stack([rows, np.clip(wire[:, 1], -bound, bound)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class BitSums:
    """Local differential privacy: how often each bit of noisy codes is set, and rows."""

    code: ResponseCode

    @property
    def width(self) -> int:
        return self.code.bits + 1

    @property
    def layout(self) -> SideLayout:
        return SideLayout(self.code.n_classes, rows_apart=True)

    def read(self, wire: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:
        _check_rows(wire)
        decoder, counts = make_decoder(self.code), _make_room(wire, self.layout)
        workers.run(
            lambda sides: decode_sums(wire, decoder, ROW_UNITS, counts, *sides),
            _divide(wire),
        )
        return counts


@dataclass(frozen=True, slots=True)
class NoisyCounts:
    """Global differential privacy: noisy rows of each class, and rows."""

    n_classes: int

    @property
    def width(self) -> int:
        return self.n_classes + 1

    @property
    def layout(self) -> SideLayout:
        return SideLayout(self.n_classes, rows_apart=True)

    def read(self, wire: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:
        _check_rows(wire)
        counts = _make_room(wire, self.layout)
        workers.run(lambda sides: mend_sums(wire, ROW_UNITS, counts, *sides), _divide(wire))
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class WeightedClasses:
    """Counts of rows times the class weights of the run."""

    counting: Counting
    weights: NDArray[np.int64]

    @property
    def width(self) -> int:
        return self.counting.width

    @property
    def layout(self) -> SideLayout:
        return SideLayout(len(self.weights), rows_apart=True)

    def read(self, wire: NDArray[np.int64], workers: Workers) -> NDArray[np.int64]:
        sums = self.counting.layout.expand(self.counting.read(wire, workers))
        sums[:, :-1] *= self.weights
        return sums


def choose_counting(
    labels: LabelUnion,
    privacy: LocalDP | GlobalDP | None,
    class_weights: NDArray[np.float64] | None = None,
    *,
    rows_apart: bool,
) -> Counting:
    """Choose the format of one side of a cut; `rows_apart` if rows may not weigh one."""
    if labels.classes is None:
        if privacy is None:
            return ExactSums(SideLayout(0, rows_apart))
        assert isinstance(privacy, GlobalDP)
        assert privacy.target_bounds is not None
        bounds = np.array(privacy.target_bounds, np.float64)
        levels = TargetGrid.of(privacy.target_bounds).levels(bounds)
        return NoisyTargets(int(np.abs(levels).max()))
    counting: Counting
    if isinstance(privacy, LocalDP):
        counting = BitSums(privacy.resolve(labels.n_classes))
    elif privacy is not None:
        counting = NoisyCounts(labels.n_classes)
    else:
        counting = ExactSums(SideLayout(labels.n_classes, rows_apart))
    if class_weights is None:
        return counting
    return WeightedClasses(counting, fix_weights(class_weights)[0])


def describe_sums(labels: LabelUnion, criterion: Criterion) -> TargetKind:
    """Describe the integers that stand for a node."""
    if labels.classes is None:
        return TargetKind(
            search="moments",
            sums="moments",
            criterion=criterion,
            n_classes=0,
            target_unit=labels.target_unit,
            target_offset=labels.target_offset,
        )
    n_classes = labels.n_classes
    return TargetKind(search="classes", sums="classes", criterion=criterion, n_classes=n_classes)


def _check_rows(wire: NDArray[np.int64]) -> None:
    fits = bool(lies_between(wire[:, -1], 0, MOST_ROWS))
    check(fits, "a side has fewer than no rows, or too many")


def _make_room(wire: NDArray[np.int64], layout: SideLayout) -> NDArray[np.int64]:
    return np.empty((len(wire), layout.width), np.int64)


def _divide(wire: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the ranges of sides that one worker decodes at a time."""
    ends = [*range(0, len(wire), SIDES_WORTH_A_THREAD), len(wire)]
    return list(pairwise(ends))


def _check_targets(wire: NDArray[np.int64]) -> None:
    weights, totals = wire[:, 0], wire[:, 1]
    check(bool(lies_between(weights, 0, WEIGHT_SUM_LIMIT)), "a side has less than no weight")
    rows = wire[:, -1 if wire.shape[1] > 2 else 0]
    check(bool(lies_between(rows, 0, WEIGHT_SUM_LIMIT)), "a side has fewer than no rows")
    check(bool(lies_between(totals, -SUM_LIMIT, SUM_LIMIT)), "targets add up to more than they can")
