"""Hypothesis strategies that several test modules share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numba import config
from numpy.typing import NDArray

from fedforest.kernels.layout import Columns, RowOrder

# around the 512 rows that binning handles as one block
BLOCK_SIZES = (1, 2, 3, 17, 511, 512, 513, 1025)

# around the sizes at which the search for splits changes its method
NODE_SIZES = (1, 2, 3, 9, 15, 16, 17, 40, 127, 128, 129, 255, 256, 257, 511, 512, 513, 640)

# tests of kernels also run as plain Python, with fewer examples
IS_PLAIN_PYTHON = bool(config.DISABLE_JIT)  # type: ignore[attr-defined]

MISSING = 255
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def numeric_columns(draw: st.DrawFn, n_rows: int, dtype: type = np.float64) -> NDArray[Any]:
    """A column that may be constant, tied, skewed, continuous or wild, with gaps and infinities."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    shape = draw(st.sampled_from(["constant", "few", "tied", "even", "skewed", "heavy", "wild"]))
    if shape == "constant":
        column = np.full(n_rows, draw(st.floats(-1e6, 1e6)))
    elif shape == "few":
        column = rng.integers(0, draw(st.integers(1, 300)), n_rows) / 8
    elif shape == "tied":
        column = np.where(rng.random(n_rows) < 0.8, 0.0, rng.standard_normal(n_rows))
    elif shape == "even":
        column = rng.random(n_rows)
    elif shape == "skewed":
        column = np.exp(8 * rng.standard_normal(n_rows))
    elif shape == "heavy":
        column = rng.standard_cauchy(n_rows)
    else:
        pool = draw(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
        column = rng.choice(pool, n_rows)
    column[rng.random(n_rows) < draw(st.sampled_from([0, 0, 0.2, 1]))] = np.nan
    column[rng.random(n_rows) < draw(st.sampled_from([0, 0, 0.1]))] = np.inf
    column[rng.random(n_rows) < draw(st.sampled_from([0, 0, 0.1]))] = -np.inf
    with np.errstate(over="ignore"):
        return column.astype(dtype)


@dataclass(frozen=True, eq=False)
class BinnedTable:
    """Columns as the engine sees them."""

    bins: NDArray[np.uint8]  # (columns, rows)
    n_bins: NDArray[np.int16]
    is_categorical: NDArray[np.bool_]

    @property
    def n_columns(self) -> int:
        return len(self.bins)

    @property
    def n_rows(self) -> int:
        return len(self.bins[0])

    def columns(self) -> Columns:
        flat, by_row = self.bins.reshape(-1), self.bins.T.reshape(-1)
        return Columns(flat, np.uint64(self.n_rows), self.n_bins, self.is_categorical, by_row)

    def rows(self) -> list[list[int]]:
        return self.bins.T.tolist()  # type: ignore[no-any-return]

    def take_rows(self, rows: NDArray[Any]) -> "BinnedTable":
        bins = np.ascontiguousarray(self.bins[:, rows])
        return BinnedTable(bins, self.n_bins, self.is_categorical)


@st.composite
def binned_columns(draw: st.DrawFn, n_rows: int) -> tuple[NDArray[np.uint8], int, bool]:
    """(bins, value bins, is categorical): constant, tied, fine or unbalanced, with gaps."""
    rng = np.random.default_rng(draw(SEEDS, label="column seed"))
    shape = draw(st.sampled_from(["constant", "two", "few", "few", "fine", "unbalanced"]))
    n_bins = {"constant": 1, "two": 2, "few": 7}.get(shape) or int(rng.integers(65, MISSING + 1))
    codes = rng.integers(0, n_bins, n_rows)
    if shape == "unbalanced":
        codes = (n_bins * rng.random(n_rows) ** 6).astype(np.int64)
    missing_share = draw(st.sampled_from([0, 0, 0.1, 0.5, 1]))
    codes[rng.random(n_rows) < missing_share] = MISSING
    return codes.astype(np.uint8), n_bins, draw(st.booleans(), label="categorical")


@st.composite
def binned_tables(draw: st.DrawFn, n_rows: int, max_columns: int = 10) -> BinnedTable:
    """A table of 1 to `max_columns` columns; more than eight need a second byte of candidates."""
    n_columns = draw(st.integers(1, max_columns), label="columns")
    drawn = [draw(binned_columns(n_rows)) for _ in range(n_columns)]
    return BinnedTable(
        np.stack([bins for bins, _, _ in drawn]),
        np.array([n_bins for _, n_bins, _ in drawn], np.int16),
        np.array([is_categorical for _, _, is_categorical in drawn]),
    )


@st.composite
def class_codes(draw: st.DrawFn, table: BinnedTable, n_classes: int) -> NDArray[np.int64]:
    """Labels that follow one column of the table, more or less."""
    rng = np.random.default_rng(draw(SEEDS, label="label seed"))
    followed = table.bins[int(rng.integers(table.n_columns))].astype(np.int64)
    noise = rng.random(table.n_rows) < draw(st.sampled_from([0.1, 0.4, 1.0]), label="noise")
    return np.where(noise, rng.integers(0, n_classes, table.n_rows), followed % n_classes)


@st.composite
def sample_weights(draw: st.DrawFn, n_rows: int) -> NDArray[np.float64] | None:
    """No weights, whole ones, or real ones, with or without zeros (never all of them)."""
    rng = np.random.default_rng(draw(SEEDS, label="weight seed"))
    kind = draw(st.sampled_from(["none", "whole", "real", "zeros"]), label="weights")
    if kind == "none":
        return None
    if kind == "real":
        return np.exp(2 * rng.standard_normal(n_rows))
    weights = rng.integers(1 if kind == "whole" else 0, 5, n_rows).astype(np.float64)
    weights[rng.integers(n_rows)] = 3.0
    return weights


@dataclass(frozen=True, eq=False)
class DrawnNodes:
    """The rows of some open nodes, ascending, and how often each was drawn."""

    rows: list[NDArray[np.int64]]
    multiplicities: list[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.rows)

    def order(self, n_rows: int, classes: NDArray[Any], dtype: type = np.uint32) -> RowOrder:
        """As row entries; `classes` has one code per row of the table."""
        row_bits = max(1, int(n_rows - 1).bit_length())
        drawn = zip(self.rows, self.multiplicities, strict=True)
        entries = [
            rows | (times << row_bits) | (classes[rows] << (row_bits + 4)) for rows, times in drawn
        ]
        stop = np.cumsum([len(rows) for rows in self.rows])
        start = np.concatenate([[0], stop[:-1]])
        return RowOrder(np.concatenate(entries).astype(dtype), np.uint64(row_bits), start, stop)


@st.composite
def drawn_nodes(draw: st.DrawFn, n_rows: int) -> DrawnNodes:
    """One to four nodes of different trees: each holds any rows of the table."""
    rng = np.random.default_rng(draw(SEEDS, label="node seed"))
    sizes = draw(
        st.lists(
            st.sampled_from([size for size in NODE_SIZES if size <= n_rows]), min_size=1, max_size=4
        ),
        label="node sizes",
    )
    most = draw(st.sampled_from([1, 3, 15]), label="largest multiplicity")
    rows = [np.sort(rng.choice(n_rows, size, replace=False)) for size in sizes]
    return DrawnNodes(rows, [rng.integers(1, most + 1, size) for size in sizes])
