"""Payloads that may leave a party in horizontal training, beside those of the aggregation.

Reviewing privacy means reading this file, `protocol/payloads.py` and
`protocol/aggregation/payloads.py`.
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.points import has_infinite
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.payloads import to_bytes, view_bytes
from fedforest.tree.table.class_labels import Label
from fedforest.tree.table.columns import Category
from fedforest.tree.table.targets import MAX_CLASSES

Exponent = Annotated[int, msgspec.Meta(ge=-1074, le=1024)]  # of a float64

ColumnName = Annotated[str, msgspec.Meta(max_length=1000)]

NUMERIC, CATEGORICAL, EMPTY = 0, 1, 2  # kinds of columns


class DeclaredColumns(Payload, frozen=True):
    """Declared: the names of a party's columns and the categories that occur in them."""

    names: tuple[ColumnName, ...]
    has_names: bool
    kinds: memoryview  # per column: NUMERIC, CATEGORICAL, or EMPTY where no value is known
    has_missing: memoryview  # per column: 1 where a value is missing
    categories: tuple[tuple[Category, ...], ...]  # of the categorical columns, in order


class DeclaredLabels(Payload, frozen=True):
    """Declared: the classes a party has, or how large its targets and weights are at most.

    Sizes are powers of two, so that no target and no weight is revealed.
    """

    dtype: Annotated[str, msgspec.Meta(max_length=16)] = ""  # of class labels; empty for targets
    classes: Annotated[tuple[Label, ...], msgspec.Meta(max_length=MAX_CLASSES)] = ()
    target_exponent: Exponent | None = None  # every |target| is below 2**exponent; None: no rows
    weight_exponent: Exponent | None = None  # the same for weights; None: all weigh one


class Points(Payload, frozen=True):
    """A random number strictly between the smallest and largest value of each (node, column).

    NaN where the party abstains: one row, one value, or nothing between two values.
    """

    data: memoryview

    @classmethod
    def of(cls, points: NDArray[np.float32]) -> "Points":
        return cls(to_bytes(points, "<f4"))

    def read(self, n_pairs: int) -> NDArray[np.float32]:
        points = view_bytes(self.data, "<f4", n_pairs, "points")
        check(not has_infinite(points), "a point is infinite")
        return points


MAY_LEAVE = (DeclaredColumns, DeclaredLabels, Points)
