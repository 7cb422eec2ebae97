"""Payloads that may leave a party, one type each. Reviewing privacy means reading this file.

A reply may have fields of the types in `MAY_LEAVE` only; a test walks every reply. Everything here
is a statistic, a bit or a protected label: no type holds a value of a column, an edge between bins,
a column's name or a row's identity.
"""

import math
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedforest.errors import ProtocolError
from fedforest.kernels.bits.ranges import count_bits
from fedforest.kernels.bits.short_codes import (
    MAX_WIDTH,
    ZEROS_APART,
    choose_widths,
    read_codes,
    write_codes,
)
from fedforest.kernels.bits.varints import MAX_VARINT_BYTES, read_varints, write_varints
from fedforest.kernels.growth.gains import are_gains
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.label_door import LabelStatistic

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
LARGEST_GAIN = 2.0**192  # scores are at most squares of sums, which are below 2^62


class TableSize(Payload, frozen=True):
    """Declared: how many rows and columns a party takes part with."""

    n_rows: Count
    n_columns: Count


class Gains(Payload, frozen=True):
    """The best score of each open node over a party's candidate columns, or minus infinity."""

    data: memoryview

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> Self:
        return cls(to_bytes(scores, "<f8"))

    def read(self, n_nodes: int) -> NDArray[np.float64]:
        scores = from_bytes(self.data, "<f8", n_nodes, "gains")
        is_plausible = bool(are_gains(scores, LARGEST_GAIN))
        check(is_plausible, "a gain is not a number, or none that a split can have")
        return scores


class RowBits(Payload, frozen=True):
    """One bit for each row of some nodes: does it go left? Every node starts a byte."""

    data: memoryview

    @classmethod
    def of(cls, bits: NDArray[np.uint8]) -> Self:
        return cls(bits.data)

    def read(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Read the bits of nodes with these sizes, and count the rows of each that go left."""
        lengths = (sizes + 7) >> 3
        bits = from_bytes(self.data, "u1", int(lengths.sum()), "row bits")
        counts = np.zeros(len(sizes), np.int64)
        is_padded = count_bits(bits, np.cumsum(lengths) - lengths, sizes, counts)
        check(bool(is_padded), "row bits are padded with ones")
        return bits, counts


class NodeSums(Payload, frozen=True):
    """Label sums of nodes: class weights, or weight, target sum and purity."""

    data: memoryview

    @classmethod
    def of(cls, sums: NDArray[np.int64]) -> Self:
        flat = np.ascontiguousarray(sums).reshape(-1)
        out = np.empty(len(flat) * MAX_VARINT_BYTES, np.uint8)
        return cls(out[: write_varints(flat, out)].data)

    def read(self, n_nodes: int, n_sums: int) -> NDArray[np.int64]:
        sums = np.zeros(n_nodes * n_sums, np.int64)
        data = from_bytes(self.data, "u1", len(self.data), "node sums")
        check(bool(read_varints(data, sums)), "node sums are not as many as the nodes need")
        return sums.reshape(n_nodes, n_sums)

    @classmethod
    def of_columns(cls, sums: NDArray[np.int64]) -> Self:
        """Encode sums with a separate width for each column: fewer bytes, a little more work."""
        widths = np.zeros(sums.shape[1], np.uint8)
        room = np.zeros((int(choose_widths(sums, widths)) + 7) // 8, np.uint8)
        n_bytes = write_codes(sums, widths, room)
        return cls(np.concatenate([widths, room[:n_bytes]]).data)

    def read_columns(self, n_nodes: int, n_sums: int) -> NDArray[np.int64]:
        """Decode sums that `of_columns` encoded."""
        sums = np.zeros((n_nodes, n_sums), np.int64)
        data = from_bytes(self.data, "u1", len(self.data), "node sums")
        widths = data[:n_sums]
        is_read = len(widths) == n_sums and bool((widths <= MAX_WIDTH + ZEROS_APART).all())
        is_read = is_read and bool(read_codes(data[n_sums:], widths, sums))
        check(is_read, "node sums are not as many as the nodes need")
        return sums


class EncodedLabels(LabelStatistic, frozen=True):
    """Every row's label under a code: permuted class numbers, or targets in units of their own.

    `weights` is empty where all rows weigh the same.
    """

    codes: memoryview
    levels: memoryview
    weights: memoryview


class NoisyLabels(EncodedLabels, frozen=True):
    """Labels of which each was replaced by another class at random with a known probability."""


class LabelScale(Payload, frozen=True):
    """The meaning of label codes: for the coordinator only, never sent to other parties."""

    n_classes: Count
    target_unit: float = 1.0
    target_offset: float = 0.0


class OutOfBagScores(LabelStatistic, frozen=True):
    """The forest's scores on out-of-bag rows, after each further tree."""

    data: memoryview

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> Self:
        return cls(to_bytes(scores, "<f8"))

    def read(self, n_trees: int) -> NDArray[np.float64]:
        scores = from_bytes(self.data, "<f8", n_trees, "out-of-bag scores")
        check(not np.isinf(scores).any(), "an out-of-bag score is infinite")  # NaN: no row voted
        return scores


class OutOfBagVotes(LabelStatistic, frozen=True):
    """The forest's prediction for each training row by the trees that left it out."""

    data: memoryview

    @classmethod
    def of(cls, votes: NDArray[np.float64]) -> Self:
        return cls(to_bytes(votes, "<f8"))

    def read(self, n_rows: int, n_outputs: int) -> NDArray[np.float64]:
        votes = from_bytes(self.data, "<f8", n_rows * n_outputs, "out-of-bag votes")
        check(not np.isinf(votes).any(), "an out-of-bag vote is infinite")  # NaN: no tree voted
        return votes.reshape(n_rows, n_outputs)


class Importances(Payload, frozen=True):
    """The importance of each of a party's columns, in the party's order and without names."""

    data: memoryview

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Self:
        return cls(to_bytes(values, "<f8"))

    def read(self, n_columns: int) -> NDArray[np.float64]:
        values = from_bytes(self.data, "<f8", n_columns, "importances")
        check(bool(np.isfinite(values).all()), "an importance is not a number")
        return values


class Outcomes(Payload, frozen=True):
    """Prediction: the outcomes of a party's own splits for rows that can still reach them."""

    data: memoryview


class SealedVotes(LabelStatistic, frozen=True):
    """What the forest says about some rows, which only the asker can read.

    `key` is the label party's public key for these votes alone.
    """

    key: memoryview
    data: memoryview


class PartialScores(Payload, frozen=True):
    """Linear models: the contribution of a party's columns to each row's score."""

    data: memoryview

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> Self:
        return cls(to_bytes(scores, "<f8"))

    def read(self, n_rows: int) -> NDArray[np.float64]:
        return _finite(from_bytes(self.data, "<f8", n_rows, "partial scores"), "a partial score")


class Residuals(LabelStatistic, frozen=True):
    """Linear models: how far each row's score is from its label, times the row's weight."""

    data: memoryview

    @classmethod
    def of(cls, residuals: NDArray[np.float64]) -> Self:
        return cls(to_bytes(residuals, "<f8"))

    def read(self, n_rows: int) -> NDArray[np.float64]:
        return _finite(from_bytes(self.data, "<f8", n_rows, "residuals"), "a residual")


class Curvatures(LabelStatistic, frozen=True):
    """Linear models: how fast each row's residual grows with its score."""

    data: memoryview

    @classmethod
    def of(cls, curvatures: NDArray[np.float64]) -> Self:
        return cls(to_bytes(curvatures, "<f8"))

    def read(self, n_rows: int) -> NDArray[np.float64]:
        curvatures = from_bytes(self.data, "<f8", n_rows, "curvatures")
        check(bool((curvatures >= 0.0).all()), "a curvature is negative")
        return _finite(curvatures, "a curvature")


class TrainingLoss(LabelStatistic, frozen=True):
    """Linear models: the loss of the current scores, summed over all rows."""

    value: float

    def read(self) -> float:
        check(math.isfinite(self.value), "the loss is not finite")
        return self.value


class DotProducts(Payload, frozen=True):
    """Linear models: products of a party's coefficient vectors with each other and its gradient."""

    data: memoryview

    @classmethod
    def of(cls, products: NDArray[np.float64]) -> Self:
        return cls(to_bytes(products, "<f8"))

    def read(self, n_products: int) -> NDArray[np.float64]:
        return _finite(from_bytes(self.data, "<f8", n_products, "products"), "a product")


class RowWeights(Payload, frozen=True):
    """Linear models: the user's weight of each row, without class weights."""

    data: memoryview

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> Self:
        return cls(to_bytes(weights, "<f8"))

    def read(self, n_rows: int) -> NDArray[np.float64]:
        weights = from_bytes(self.data, "<f8", n_rows, "row weights")
        check(bool((weights >= 0.0).all()), "a row weight is negative")
        return _finite(weights, "a row weight")


MAY_LEAVE = (
    TableSize,
    Gains,
    RowBits,
    NodeSums,
    EncodedLabels,
    NoisyLabels,
    LabelScale,
    OutOfBagScores,
    OutOfBagVotes,
    Importances,
    Outcomes,
    SealedVotes,
    PartialScores,
    Residuals,
    Curvatures,
    TrainingLoss,
    DotProducts,
    RowWeights,
)


def to_bytes(array: NDArray[Any], dtype: DTypeLike) -> memoryview:
    """Return an array's content as bytes in wire format."""
    return np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data


def from_bytes(data: memoryview, dtype: DTypeLike, length: int, what: str) -> NDArray[Any]:
    """Read an array as a writable copy; refuse another length."""
    return view_bytes(data, dtype, length, what).copy()


def view_bytes(data: memoryview, dtype: DTypeLike, length: int, what: str) -> NDArray[Any]:
    """View bytes as an array without a copy; refuse another length."""
    wanted = np.dtype(dtype)
    if len(data) != length * wanted.itemsize:  # `check` would take longer than the rest
        raise ProtocolError.stating(
            "{what}: {n_bytes} bytes for {length} entries",
            what=what,
            n_bytes=len(data),
            length=length,
        )
    return np.frombuffer(data, wanted)


def _finite(numbers: NDArray[np.float64], what: str) -> NDArray[np.float64]:
    check(bool(np.isfinite(numbers).all()), "{what} is not finite", what=what)
    return numbers
