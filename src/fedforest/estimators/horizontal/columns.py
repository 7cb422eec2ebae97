"""The columns that all parties of a horizontal federation have: the same, in one order.

Columns are matched by name, or by position where no party names them. A column without a single
value at a party fits any kind there.
"""

from collections.abc import Mapping

import numpy as np

from fedforest.errors import DataError
from fedforest.tree.table.columns import CategoryColumn, Column
from fedforest.tree.table.frames import Table, list_names


def match_columns(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Return the parties' tables with the first party's columns in its order.

    Raises `DataError` naming column and party where names, numbers or kinds of columns differ.
    """
    first, *_ = tables
    matched = {}
    for party, table in tables.items():
        _check_names(first, tables[first], party, table)
        matched[party] = _arrange(table, tables[first].names)
    return _match_kinds(matched)


def _check_names(first: str, expected: Table, party: str, table: Table) -> None:
    if table.has_names != expected.has_names:
        named, unnamed = (party, first) if table.has_names else (first, party)
        raise DataError(
            f"the columns of party {named!r} have names, those of {unnamed!r} have none; give all "
            "parties' columns their names, or none"
        )
    if table.has_names:
        lacking = [name for name in expected.names if name not in set(table.names)]
        extra = [name for name in table.names if name not in set(expected.names)]
        if lacking:
            raise _differs(f"party {party!r} lacks columns that {first!r} has", lacking)
        if extra:
            raise _differs(f"party {party!r} has columns that {first!r} lacks", extra)
    elif table.n_features != expected.n_features:
        raise DataError(
            f"party {party!r} has {table.n_features} columns, but {first!r} has "
            f"{expected.n_features}; all parties must have the same columns"
        )


def _differs(problem: str, columns: list[str]) -> DataError:
    return DataError(f"{problem}: {list_names(columns)}; all parties must have the same columns")


def _arrange(table: Table, names: tuple[str, ...]) -> Table:
    if table.names == names:
        return table
    place_of = {name: place for place, name in enumerate(table.names)}
    return table.take([place_of[name] for name in names])


def _match_kinds(tables: Mapping[str, Table]) -> dict[str, Table]:
    """Numbers or categories, at all parties alike; only where kinds differ are values looked at."""
    names = next(iter(tables.values())).names
    columns = {party: list(table.columns) for party, table in tables.items()}
    for feature, name in enumerate(names):
        of_party = {party: own[feature] for party, own in columns.items()}
        if len({isinstance(column, CategoryColumn) for column in of_party.values()}) == 2:
            is_categorical = _agree(name, of_party)
            for party, column in of_party.items():
                if isinstance(column, CategoryColumn) != is_categorical:
                    n_rows = tables[party].n_rows
                    columns[party][feature] = _without_values(n_rows, is_categorical=is_categorical)
    return {
        party: Table(table.names, tuple(columns[party]), table.n_rows, table.has_names)
        for party, table in tables.items()
    }


def _agree(name: str, of_party: Mapping[str, Column]) -> bool:
    """Return whether a column is categorical, by the parties that have a value of it."""
    kinds = {
        party: isinstance(column, CategoryColumn)
        for party, column in of_party.items()
        if _has_value(column)
    }
    if len(set(kinds.values())) == 2:
        numeric = next(party for party, is_categorical in kinds.items() if not is_categorical)
        categorical = next(party for party, is_categorical in kinds.items() if is_categorical)
        raise DataError(
            f"column {name!r} holds numbers at party {numeric!r} and categories at "
            f"{categorical!r}; bring it into one form at all parties"
        )
    return any(kinds.values())


def _has_value(column: Column) -> bool:
    if isinstance(column, CategoryColumn):
        return bool((column.codes >= 0).any())
    return not np.isnan(column).all()


def _without_values(n_rows: int, *, is_categorical: bool) -> Column:
    if is_categorical:
        return CategoryColumn(np.full(n_rows, -1, np.int32), ())
    return np.full(n_rows, np.nan, np.float32)
