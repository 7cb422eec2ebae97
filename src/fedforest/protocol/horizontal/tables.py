"""Declarations of tables by parties, and their union.

Parties hold different rows of the same columns. Categories and classes are united, because not
every party has all of them; their frequencies are not declared.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.bins.raw_columns import find_missing
from fedforest.protocol.asking import blame, check
from fedforest.protocol.horizontal.payloads import (
    CATEGORICAL,
    EMPTY,
    NUMERIC,
    DeclaredColumns,
)
from fedforest.protocol.payloads import from_bytes
from fedforest.tree.table.bins import Bins, number_categories
from fedforest.tree.table.blocks import find_blocks
from fedforest.tree.table.categories import N_OWN_BINS, count_categories, sort_categories
from fedforest.tree.table.columns import Category, CategoryColumn, Column, is_canonical
from fedforest.tree.table.frames import Table, list_names
from fedforest.tree.table.pieces import TableSource

Categories = tuple[Category, ...] | None  # in code order; None for numbers


def declare_columns(table: TableSource) -> DeclaredColumns:
    """Declare a party's columns."""
    kinds = np.full(table.n_features, EMPTY, np.uint8)
    has_missing = np.zeros(table.n_features, np.bool_)
    categories: list[set[Category]] = [set() for _ in range(table.n_features)]
    for piece in table.pieces():
        kinds = np.minimum(kinds, np.array(list_kinds(piece.table), np.uint8))
        has_missing |= find_incomplete(piece.table)
        for feature, column in enumerate(piece.table.columns):
            if isinstance(column, CategoryColumn):
                categories[feature] |= count_categories(column).keys()
    return DeclaredColumns(
        table.names,
        table.has_names,
        kinds.data,
        has_missing.astype(np.uint8).data,
        tuple(
            tuple(sort_categories(list(known)))
            for known, kind in zip(categories, kinds, strict=True)
            if kind == CATEGORICAL
        ),
    )


def list_kinds(table: Table) -> list[int]:
    """Return the declared kind of each column."""
    if table.matrix is None or table.n_rows == 0:
        return [kind_of(column) for column in table.columns]
    kinds = np.full(table.n_features, NUMERIC)
    for column in np.flatnonzero(np.isnan(table.matrix[0])):  # usually the first value decides
        kinds[column] = kind_of(table.columns[column])
    return kinds.tolist()


def kind_of(column: Column) -> int:
    """Return the declared kind of one column."""
    if isinstance(column, CategoryColumn):
        return CATEGORICAL if (column.codes >= 0).any() else EMPTY
    if len(column) and not np.isnan(column[0]):  # usually the first value decides
        return NUMERIC
    return EMPTY if np.isnan(column).all() else NUMERIC


def find_incomplete(table: Table) -> NDArray[np.bool_]:
    """Return, per column, whether a value is missing."""
    is_missing = np.zeros(table.n_features, np.bool_)
    for feature, column in enumerate(table.columns if table.matrix is None else ()):
        if isinstance(column, CategoryColumn):
            is_missing[feature] = (column.codes < 0).any()
    for block in find_blocks(table):
        is_missing[block.features] = find_missing(block.cells, table.n_rows)
    return is_missing


class ColumnUnion:
    """The union of all parties' declarations."""

    def __init__(self, declared: Mapping[str, DeclaredColumns]) -> None:
        self._declared = declared
        first = next(iter(declared.values()))
        self.names = first.names
        self.has_names = first.has_names
        self._kinds = {party: self._read(party, columns) for party, columns in declared.items()}

    def _read(self, party: str, columns: DeclaredColumns) -> NDArray[np.uint8]:
        with blame(party):
            n_columns = len(columns.names)
            check(len(set(columns.names)) == n_columns, "two columns have one name")
            kinds = from_bytes(columns.kinds, "u1", n_columns, "kinds of columns")
            missing = from_bytes(columns.has_missing, "u1", n_columns, "flags of columns")
            check(bool((kinds <= EMPTY).all()), "a column is of no known kind")
            check(bool((missing <= 1).all()), "a column's flag is none")
            n_categorical = int((kinds == CATEGORICAL).sum())
            check(len(columns.categories) == n_categorical, "categories of a column are missing")
            for categories in columns.categories:
                check(len(set(categories)) == len(categories), "a category is repeated")
                check(all(map(is_canonical, categories)), "a category is not in its one form")
        if columns.names != self.names:
            raise _differ(party, columns.names, self.names)
        return kinds

    def has_missing(self) -> NDArray[np.bool_]:
        """Return, per column, whether a value is missing at any party."""
        flags = [np.frombuffer(c.has_missing, np.uint8) for c in self._declared.values()]
        return np.any(np.stack(flags), axis=0)  # type: ignore[no-any-return] # numpy's any

    def categories(self) -> list[Categories]:
        """Return, per column, all parties' categories in code order, or None for numbers."""
        everybodys = np.stack(list(self._kinds.values()))
        has_some = (everybodys == CATEGORICAL).any(axis=0).tolist()
        return [self._unite(column) if has else None for column, has in enumerate(has_some)]

    def _unite(self, column: int) -> Categories:
        """Unite the categories of a column that is categorical at one or more parties."""
        kinds = {party: int(kinds[column]) for party, kinds in self._kinds.items()}
        if NUMERIC in kinds.values():
            text = next(party for party, kind in kinds.items() if kind == CATEGORICAL)
            numbers = next(party for party, kind in kinds.items() if kind == NUMERIC)
            raise DataError(
                f"column {self.names[column]!r} holds categories at party {text!r} and numbers at "
                f"party {numbers!r}; convert one of them"
            )
        known: Counter[Category] = Counter()
        for party, kind in kinds.items():
            if kind == CATEGORICAL:
                place = int((self._kinds[party][:column] == CATEGORICAL).sum())
                known.update(self._declared[party].categories[place])
        ordered = sort_categories(list(known))
        # too many for a bin each: those that most parties know come first
        common = set(sorted(ordered, key=lambda value: -known[value])[:N_OWN_BINS])
        return tuple(sorted(ordered, key=lambda value: value not in common))


def _differ(party: str, names: Sequence[str], expected: Sequence[str]) -> DataError:
    extra = [name for name in names if name not in expected]
    lacking = [name for name in expected if name not in names]
    if extra or lacking:
        told = [f"lacks {list_names(lacking)}"] if lacking else []
        told += [f"has {list_names(extra)} in addition"] if extra else []
        what = " and ".join(told)
    else:
        what = "has them in another order"
    return DataError(
        f"party {party!r} has other columns than the first party: it {what}; horizontal training "
        "needs the same columns everywhere"
    )


def make_bins(
    names: Sequence[str], categories: Sequence[Categories], *, has_names: bool = True
) -> Bins:
    """Make bins that number the common categories and leave numbers unchanged."""
    return number_categories(tuple(names), categories, has_names=has_names)
