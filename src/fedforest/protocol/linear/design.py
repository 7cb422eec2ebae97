"""A party's columns as a matrix of standardised numbers; means and scales stay at the party.

A numeric column is one term: centred, divided by its standard deviation, missing values at the
mean. A categorical column is one indicator per frequent category, standardised likewise; rare, new
and missing categories are zero in all of them. Constant terms are zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.tree.table.categories import count_categories, order_categories
from fedforest.tree.table.columns import Category, CategoryColumn, Column, encode_numbers
from fedforest.tree.table.frames import Table

MAX_CATEGORIES = 50


@dataclass(frozen=True, slots=True)
class Term:
    """One column of the matrix: (value - mean) / scale, or 0 where the scale is 0."""

    feature: int
    category: Category | None  # None: the numeric column itself
    mean: float
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The translation of a table into a matrix; learned from the training table."""

    names: tuple[str, ...]
    terms: tuple[Term, ...]
    is_categorical: tuple[bool, ...]

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of columns; for indicators with their category."""
        return tuple(
            self.names[term.feature] + ("" if term.category is None else f"={term.category}")
            for term in self.terms
        )

    def transform(self, table: Table) -> NDArray[np.float64]:
        """Return the matrix (rows, terms) of a table with the columns of training, in F order."""
        if table.n_features != len(self.names):
            raise DataError.of("columns.count", n_columns=table.n_features, limit=len(self.names))
        matrix = np.zeros((table.n_rows, len(self.terms)), order="F")
        for place, term in enumerate(self.terms):
            if term.scale > 0.0:
                values = self._values(table.columns[term.feature], term)
                matrix[:, place] = np.nan_to_num((values - term.mean) / term.scale, copy=False)
        return matrix

    def _values(self, column: Column, term: Term) -> NDArray[np.float64]:
        name = self.names[term.feature]
        if term.category is not None:
            encoded = column if isinstance(column, CategoryColumn) else encode_numbers(column)
            return _indicate(encoded, term.category)
        if isinstance(column, CategoryColumn):
            raise DataError.of("column.holds_text", own_column=name)
        return _read_numbers(column, name)


def fit_design(table: Table, weights: NDArray[np.float64] | None = None) -> Design:
    """Learn means, scales and frequent categories; rows count by their weights."""
    row_weights = np.ones(table.n_rows) if weights is None else weights
    terms = [
        term
        for feature, (name, column) in enumerate(zip(table.names, table.columns, strict=True))
        for term in _fit_column(feature, name, column, row_weights)
    ]
    is_categorical = tuple(isinstance(column, CategoryColumn) for column in table.columns)
    return Design(table.names, tuple(terms), is_categorical)


def _fit_column(
    feature: int, name: str, column: Column, weights: NDArray[np.float64]
) -> Iterator[Term]:
    if not isinstance(column, CategoryColumn):
        yield Term(feature, None, *_fit_scale(_read_numbers(column, name), weights, name))
        return
    for category in _frequent_categories(column, weights):
        scale = _fit_scale(_indicate(column, category), weights, name)
        yield Term(feature, category, *scale)


def _fit_scale(
    values: NDArray[np.float64], weights: NDArray[np.float64], name: str
) -> tuple[float, float]:
    """Return the mean of known values, and the deviation with missing ones at the mean."""
    present = ~np.isnan(values)
    n_present = weights @ present
    if n_present == 0.0:
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(weights @ np.where(present, values, 0.0) / n_present)
        deviations = np.where(present, values - mean, 0.0)
        scale = float(np.sqrt(weights @ deviations**2 / weights.sum()))
    if not np.isfinite(scale):
        raise DataError.of("column.too_large", own_column=name)
    # smaller deviations are rounding errors of the mean
    is_constant = scale <= len(values) * np.finfo(float).eps * abs(mean)
    return mean, 0.0 if is_constant else scale


def _frequent_categories(column: CategoryColumn, weights: NDArray[np.float64]) -> list[Category]:
    """Return the heaviest categories, in category order; ties prefer the first."""
    totals = np.bincount(column.codes + 1, weights, minlength=len(column.values) + 1)[1:]
    weight_of = dict(zip(column.values, totals.tolist(), strict=True))
    known = order_categories(count_categories(column))
    ordered = [category for category in known if weight_of[category] > 0.0]
    heaviest = sorted(ordered, key=lambda category: -weight_of[category])[:MAX_CATEGORIES]
    kept = set(heaviest)
    return [category for category in ordered if category in kept]


def _indicate(column: CategoryColumn, category: Category) -> NDArray[np.float64]:
    code = column.values.index(category) if category in column.values else len(column.values)
    indicator: NDArray[np.float64] = (column.codes == code).astype(np.float64)
    return indicator


def _read_numbers(
    column: NDArray[np.float32] | NDArray[np.float64], name: str
) -> NDArray[np.float64]:
    values = column.astype(np.float64, copy=False)
    if np.isinf(values).any():
        raise DataError.of("column.infinite", own_column=name)
    return values
