"""From a table to one byte per value.

Bins are fitted once, on the training table, and then applied to it and to every table to predict.
Value bins count from 0; missing values, and categories that training did not see, are MISSING_BIN.
Edges and categories are data of the party that holds them; they leave it only in its model.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.kernels.bins import binning
from fedforest.kernels.bins.raw_columns import round_columns
from fedforest.kernels.layout import MAX_BINS, MISSING_BIN
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.table.blocks import find_blocks, group_columns
from fedforest.tree.table.categories import (
    count_categories,
    damaged,
    find_bins,
    order_categories,
    pack_categories,
    read_array,
    unpack_categories,
)
from fedforest.tree.table.columns import (
    Category,
    CategoryColumn,
    Column,
    Numbers,
    encode_numbers,
    is_unicode,
)
from fedforest.tree.table.edges import (
    EdgeFitter,
    Edges,
    prepare_search,
    row_ranges,
    sample_rows,
)
from fedforest.tree.table.frames import Table, list_names, number_columns
from fedforest.tree.table.pieces import Allocate, TableSource
from fedforest.tree.workers import ALONE, Workers

Rule: TypeAlias = Edges | tuple[Category, ...]

FITTED_TOGETHER = 64  # columns whose samples are in memory at once: 13 MB of float32


def fit_bins(
    table: TableSource, *, seed: int, max_bins: int = MAX_BINS, workers: Workers = ALONE
) -> "Bins":
    """Find the bins of every column; at most `max_bins` for a numeric one.

    Numeric columns with more distinct values are divided at the quantiles of a sample of rows,
    drawn by `seed`. Raises `ConfigurationError` when `max_bins` is not between 2 and 255.
    """
    check_max_bins(max_bins)
    rows = sample_rows(table.n_rows, seed)
    rules: list[Rule] = []
    for first in range(0, table.n_features, FITTED_TOGETHER):
        together = range(first, min(first + FITTED_TOGETHER, table.n_features))
        rules += _fit_rules(table.take(together), rows, max_bins, workers)
    return build_bins(table.names, rules, has_names=table.has_names)


def check_max_bins(max_bins: int) -> None:
    """Raise `ConfigurationError` for a number of bins that a byte cannot hold."""
    if not 2 <= max_bins <= MAX_BINS:
        raise ConfigurationError(f"max_bins must be between 2 and {MAX_BINS}, not {max_bins}")


def _fit_rules(
    table: TableSource, rows: NDArray[np.int64], max_bins: int, workers: Workers
) -> Iterator[Rule]:
    """Find the rules of some columns in one pass over their rows."""
    read = ColumnReading.of(table, rows, max_bins, workers)
    return read.rules(table.n_features)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnReading:
    """What one pass over the rows of some columns keeps of them, to find their rules."""

    fitter: EdgeFitter
    counts: dict[int, Counter[Category]]

    @classmethod
    def of(
        cls, table: TableSource, rows: NDArray[np.int64], max_bins: int, workers: Workers
    ) -> "ColumnReading":
        """Read the table; `rows` are in the sample."""
        fitter, counts = EdgeFitter(max_bins, workers), dict[int, Counter[Category]]()
        for piece in table.pieces():
            numeric: list[tuple[int, Numbers]] = []
            for feature, column in enumerate(piece.table.columns):
                if isinstance(column, CategoryColumn):
                    counts.setdefault(feature, Counter()).update(count_categories(column))
                else:
                    numeric.append((feature, column))
            fitter.read(numeric, piece.table.n_rows, piece.find(rows))
        return cls(fitter, counts)

    def join(self, other: "ColumnReading") -> None:
        """Add what was read of further rows."""
        self.fitter.join(other.fitter)
        for feature, counts in other.counts.items():
            self.counts.setdefault(feature, Counter()).update(counts)

    def rules(self, n_features: int) -> Iterator[Rule]:
        """Return the rule of each column."""
        edges = self.fitter.edges()
        for feature in range(n_features):
            counts = self.counts.get(feature)
            yield edges[feature] if counts is None else order_categories(counts)


def fit_categories(table: Table) -> "Bins":
    """Make bins that only number categories, for `Bins.raw_values`, which keeps numbers."""
    categories = [
        order_categories(count_categories(column)) if isinstance(column, CategoryColumn) else None
        for column in table.columns
    ]
    return number_categories(table.names, categories, has_names=table.has_names)


def number_categories(
    names: Sequence[str], categories: Sequence[tuple[Category, ...] | None], *, has_names: bool
) -> "Bins":
    """Make such bins from categories in code order; None stands for a column of numbers."""
    rules: list[Rule] = [np.empty(0) if values is None else values for values in categories]
    return build_bins(names, rules, has_names=has_names)


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The bins of each column of a table.

    A rule is a numeric column's edges or a categorical column's categories in code order. The
    arrays are left writable: numba would compile every kernel that takes them once more if not.
    """

    names: tuple[str, ...]
    has_names: bool
    rules: tuple[Rule, ...]
    n_bins: NDArray[np.int16]  # value bins of each column, at least 1
    is_categorical: NDArray[np.bool_]

    @property
    def n_features(self) -> int:
        return len(self.rules)

    def edges(self, feature: int) -> Edges:
        """Return the edges of a numeric column: a value <= edges[b] has a bin <= b."""
        rule = self.rules[feature]
        return np.empty(0) if isinstance(rule, tuple) else rule

    def categories(self, feature: int) -> tuple[Category, ...]:
        """Return the categories in code order; from position 254 on they share bin 254."""
        rule = self.rules[feature]
        return rule if isinstance(rule, tuple) else ()

    def transform(
        self, table: TableSource, workers: Workers = ALONE, allocate: Allocate = np.empty
    ) -> NDArray[np.uint8]:
        """Bin a table: an array (n_features, n_rows), C-contiguous.

        Named columns are found by name. Raises `DataError` when columns are missing, left over, or
        hold text where training had numbers.
        """
        return self._convert(table, allocate, np.uint8, partial(self._bin, workers))

    def raw_values(
        self, table: TableSource, workers: Workers = ALONE, allocate: Allocate = np.empty
    ) -> NDArray[np.float32]:
        """Convert a table to float32 (n_features, n_rows): numbers rounded, categories as bins.

        Missing values, and categories that training did not see, are NaN. float32 is what
        scikit-learn's trees compare, too.
        """
        return self._convert(table, allocate, np.float32, partial(self._round, workers))

    def _convert(
        self,
        table: TableSource,
        allocate: Allocate,
        dtype: type,
        write: Callable[[Table, NDArray[Any]], None],
    ) -> NDArray[Any]:
        """Convert a table piece by piece into an array (n_features, n_rows)."""
        converted = allocate((self.n_features, table.n_rows), dtype)
        for piece in self._arrange(table).pieces():
            if piece.is_whole_of(table.n_rows):
                write(piece.table, converted)
            else:
                values: NDArray[Any] = np.empty((self.n_features, piece.table.n_rows), dtype)
                write(piece.table, values)
                piece.write(values, converted)
        return converted

    def _bin(self, workers: Workers, table: Table, bins: NDArray[np.uint8]) -> None:
        columns = table.columns
        numeric: list[tuple[int, Numbers]] = []
        tasks: list[Callable[[], None]] = []
        for feature, column in enumerate(columns):
            if self.is_categorical[feature]:
                tasks.append(partial(self._bin_categories, feature, column, bins[feature]))
            elif not isinstance(column, CategoryColumn):
                numeric.append((feature, column))
            elif column.values:
                raise DataError.of("column.was_numeric", own_column=self.names[feature])
            else:
                bins[feature] = MISSING_BIN
        tasks += self._numeric_tasks(numeric, bins)
        workers.run(lambda task: task(), tasks)

    def _round(self, workers: Workers, table: Table, values: NDArray[np.float32]) -> None:
        tasks: list[Callable[[], None]] = []
        for feature in self._features_of_codes(table):
            column = table.columns[feature]
            if self.is_categorical[feature]:
                tasks.append(partial(self._number_categories, feature, column, values[feature]))
            elif isinstance(column, CategoryColumn) and column.values:
                raise DataError.of("column.was_numeric", own_column=self.names[feature])
            else:
                values[feature] = np.nan  # numbers where training had categories: all missing
        tasks += self._rounding_tasks(table, values)
        workers.run(lambda task: task(), tasks)

    def _features_of_codes(self, table: Table) -> Sequence[int]:
        """Return which features are categories in the model or in the table."""
        if table.matrix is not None:
            return np.flatnonzero(self.is_categorical).tolist()
        return [
            feature
            for feature, column in enumerate(table.columns)
            if self.is_categorical[feature] or isinstance(column, CategoryColumn)
        ]

    def _rounding_tasks(
        self, table: Table, values: NDArray[np.float32]
    ) -> Iterator[Callable[[], None]]:
        for block in find_blocks(table):
            own = block.take(np.flatnonzero(~self.is_categorical[block.features]))
            for first, last in row_ranges(table.n_rows, max(1, len(own.features))):
                yield partial(round_columns, *own, values, first, last)

    def _number_categories(self, feature: int, column: Column, values: NDArray[np.float32]) -> None:
        codes = np.empty(len(values), np.uint8)
        self._bin_categories(feature, column, codes)
        values[:] = np.where(codes == MISSING_BIN, np.float32(np.nan), codes)

    def take(self, features: Sequence[int]) -> "Bins":
        """Return the bins of these columns, in this order."""
        names = [self.names[feature] for feature in features]
        rules = [self.rules[feature] for feature in features]
        return build_bins(names, rules, has_names=self.has_names)

    @staticmethod
    def concatenate(parts: Sequence["Bins"]) -> "Bins":
        """Join the bins of several tables side by side.

        Names are kept if every part has them and they differ; else columns are numbered anew.
        """
        names = tuple(name for part in parts for name in part.names)
        has_names = all(part.has_names for part in parts) and len(set(names)) == len(names)
        if not has_names:
            names = number_columns(len(names))
        return build_bins(
            names, [rule for part in parts for rule in part.rules], has_names=has_names
        )

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, JsonValue]]:
        """Return (arrays, metadata) for a model file; equal bins give equal contents."""
        edges = [self.edges(feature) for feature in range(self.n_features)]
        arrays = {
            "edges": np.concatenate([np.empty(0), *edges]),
            "edge_counts": np.array([len(column) for column in edges], np.int16),
            "is_categorical": self.is_categorical,
            **pack_categories([rule for rule in self.rules if isinstance(rule, tuple)]),
        }
        return arrays, {"names": list(self.names), "has_names": self.has_names}

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, JsonValue]
    ) -> "Bins":
        """Read what `to_arrays` gave; raises `DamagedModelError` for anything else.

        Arrays and metadata of other names are ignored.
        """
        is_categorical = read_array(arrays, "is_categorical", np.bool_).tolist()
        edges = _read_edges(arrays)
        categories = unpack_categories(arrays)
        if len(edges) != len(is_categorical) or len(categories) != sum(is_categorical):
            raise damaged("its arrays are about different numbers of columns")
        names, has_names = _read_names(metadata, len(edges))
        rest = iter(categories)
        rules: list[Rule] = []
        for column_edges, is_category in zip(edges, is_categorical, strict=True):
            if is_category and len(column_edges):
                raise damaged("a categorical column has edges")
            rules.append(next(rest) if is_category else column_edges)
        return build_bins(names, rules, has_names=has_names)

    def _arrange(self, table: TableSource) -> TableSource:
        """Put the columns of a table into the order of these bins."""
        if self.has_names and table.has_names:
            place_of = {name: place for place, name in enumerate(table.names)}
            missing = [name for name in self.names if name not in place_of]
            extra = sorted(place_of.keys() - set(self.names), key=place_of.__getitem__)
            if missing:
                raise DataError.of("columns.missing", own_columns=list_names(missing))
            if extra:
                raise DataError.of("columns.extra", own_columns=list_names(extra))
            return table.take([place_of[name] for name in self.names])
        if table.n_features != self.n_features:
            raise DataError.of("columns.count", n_columns=table.n_features, limit=self.n_features)
        return table

    def _bin_categories(self, feature: int, column: Column, bins: NDArray[np.uint8]) -> None:
        encoded = column if isinstance(column, CategoryColumn) else encode_numbers(column)
        bins[:] = find_bins(encoded, self.categories(feature))

    def _numeric_tasks(
        self, columns: Sequence[tuple[int, Numbers]], bins: NDArray[np.uint8]
    ) -> Iterator[Callable[[], None]]:
        for block in group_columns(columns):
            edges = [self.edges(feature) for feature in block.features.tolist()]
            search = prepare_search(edges, block.cells.memory.dtype)
            for first, last in row_ranges(bins.shape[1], len(edges)):
                yield partial(
                    binning.bin_rows, block.cells, search, block.features, bins, first, last
                )


def build_bins(names: Sequence[str], rules: Sequence[Rule], *, has_names: bool) -> Bins:
    """Complete bins with what follows from the rules."""
    n_bins = [
        min(max(len(rule), 1), MAX_BINS) if isinstance(rule, tuple) else len(rule) + 1
        for rule in rules
    ]
    return Bins(
        names=tuple(names),
        has_names=has_names,
        rules=tuple(rules),
        n_bins=np.array(n_bins, np.int16),
        is_categorical=np.array([isinstance(rule, tuple) for rule in rules], np.bool_),
    )


def _read_edges(arrays: Mapping[str, NDArray[Any]]) -> list[Edges]:
    counts = read_array(arrays, "edge_counts", np.int16).astype(np.int64)
    flat = np.array(read_array(arrays, "edges", np.float64))
    if ((counts < 0) | (counts >= MAX_BINS)).any() or counts.sum() != len(flat):
        raise damaged("the numbers of its edges do not add up")
    if not len(flat):
        return [np.empty(0)] * len(counts)  # nothing to divide: splits are by thresholds
    edges = np.split(flat, np.cumsum(counts)[:-1])
    # NaN fails both comparisons; minus infinity can be an edge, plus infinity cannot
    if not (flat < np.inf).all() or not all((c[:-1] < c[1:]).all() for c in edges):
        raise damaged("the edges of a column do not ascend")
    return edges


def _read_names(metadata: Mapping[str, JsonValue], n_features: int) -> tuple[list[str], bool]:
    names, has_names = metadata.get("names"), metadata.get("has_names")
    if not isinstance(names, list) or not isinstance(has_names, bool):
        raise damaged("its column names are missing")
    texts = [name for name in names if isinstance(name, str) and is_unicode(name)]
    if not len(set(texts)) == len(names) == n_features:
        raise damaged("its column names are not distinct texts, one for each column")
    return texts, has_names
