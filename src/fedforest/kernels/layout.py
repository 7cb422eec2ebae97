"""Array layouts and constants that all kernels agree on.

A *bin* is one byte: value bins count from 0, `MISSING_BIN` is the last code. Bins are stored column
by column in one flat array, so that the rows of a large node, visited in ascending order, walk
forward through memory; and row by row, so that the few rows of a small node, which lie far apart,
bring all their columns along.

A *row entry* is one unsigned integer of the row order; it carries what a histogram needs:

    | class | multiplicity (4 bits) | row index (row_bits) |
      high                                           low

Entries are uint32 where that fits and uint64 otherwise. The multiplicity is how often the bootstrap
drew the row; regression leaves the class zero.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING_BIN = 255
MAX_BINS = 255  # value bins; with the missing bin every code of a byte is used
N_CODES = 256
SET_WORDS = 4  # a set of bins is 256 bits in four words

MULTIPLICITY_BITS = 4
MAX_MULTIPLICITY = 15

SMALL_NODE = 128  # rows; below it only occupied bins are visited
UNSEEN = 2  # side of missing values in a node that has none

NO_GROUP = 2**62  # larger than any group of rows
NO_SPLIT = -np.inf  # the score of a node none of whose candidates gives a valid split
NO_LIMITS = np.zeros(0, np.int64)  # on the weight of children


class Columns(NamedTuple):
    """The binned columns of one party."""

    bins: NDArray[np.uint8]  # flat: column f occupies [f * n_rows, (f + 1) * n_rows)
    n_rows: np.uint64
    n_bins: NDArray[np.int16]  # value bins per column
    is_categorical: NDArray[np.bool_]
    by_row: NDArray[np.uint8]  # the same bins row by row; empty where splits are not searched


class RowOrder(NamedTuple):
    """The rows of the open nodes: node k holds entries[start[k]:stop[k]], ascending by row."""

    entries: NDArray[np.unsignedinteger]
    row_bits: np.uint64
    start: NDArray[np.int64]
    stop: NDArray[np.int64]


class Targets(NamedTuple):
    """Per-row integers that do not fit into an entry; an empty array means `all ones`."""

    n_classes: int
    weights: NDArray[np.int64]  # fixed-point sample weight of a row
    values: NDArray[np.int64]  # fixed-point target times weight (moments only)
    levels: NDArray[np.int64]  # fixed-point target (moments only): equal levels make a pure node


class Rules(NamedTuple):
    """The rules for a valid split, and its score."""

    formula: NamedTuple  # of the criterion; its type chooses the functions that score
    min_rows_leaf: int
    least_weight: NDArray[np.int64] = NO_LIMITS  # of a child, per open node; empty: any will do


class Found(NamedTuple):
    """The best split of each open node among its candidates."""

    score: NDArray[np.float64]  # NO_SPLIT where there is none
    feature: NDArray[np.int32]  # -1 where there is none
    bin: NDArray[np.uint8]  # numeric: value bins <= bin go left
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]  # (nodes, 4) sets of bins; (0, 4) without categorical columns
