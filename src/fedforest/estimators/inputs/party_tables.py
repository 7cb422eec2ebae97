"""Tables by party, or one table that is divided, as columns of parties.

A `ColumnDivision` is learned from the training input and cuts every later input the same way. Rows
are taken as they come: tables of different parties must hold the same rows in the same order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.inputs import row_order
from fedforest.estimators.inputs.mistaken_tables import refuse_no_table
from fedforest.tree.table.frames import Table, common_row_count, list_names, read_table

Parties: TypeAlias = int | Mapping[str, Any] | None
Source: TypeAlias = Table | Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class Heading:
    """The columns of a table: their names, or how many there are."""

    names: tuple[str, ...]
    has_names: bool
    forgotten: frozenset[int] = frozenset()  # columns that no party holds, once read from a file

    @classmethod
    def of(cls, table: Table) -> Self:
        return cls(table.names, table.has_names)

    def check(self, table: Table, where: str, *, in_order: bool = True) -> None:
        """Refuse a table whose columns are not these; in any order where they go by name."""
        if self.has_names and table.has_names:
            names = tuple(
                self.names[place] if place in self.forgotten else name
                for place, name in enumerate(table.names)
            )
            self._check_names(names, where, in_order=in_order)
        if table.n_features != len(self.names):
            raise DataError(
                f"{where} has {table.n_features} features, but prediction is expecting "
                f"{len(self.names)} features as input: the columns of training"
            )

    def arrange(self, table: Table) -> Table:
        """Return the table's columns in this order, found by name where there are names."""
        if not (self.has_names and table.has_names) or table.names == self.names:
            return table
        return table.take([table.names.index(name) for name in self.names])

    def _check_names(self, names: tuple[str, ...], where: str, *, in_order: bool) -> None:
        unseen = sorted(set(names) - set(self.names))
        missing = sorted(set(self.names) - set(names))
        problem = f"{where}: the columns are not those of training.\n"
        if unseen:
            raise DataError(f"{problem}Feature names unseen at fit time:\n{_itemise(unseen)}")
        if missing:
            raise DataError(
                f"{problem}Feature names seen at fit time, yet now missing:\n{_itemise(missing)}"
            )
        if in_order and names != self.names:
            raise DataError(
                f"{problem}Feature names must be in the same order as they were in fit."
            )


@dataclass(frozen=True, slots=True)
class ColumnDivision:
    """The columns of each party.

    `headings` describes the one table that is divided, or the table of each party; `shares` holds
    each party's columns of the one table, or is None where tables come by party.
    """

    parties: tuple[str, ...]
    headings: tuple[Heading, ...]
    shares: tuple[tuple[int, ...], ...] | None

    @classmethod
    def of(cls, X: Any, parties: Parties = None) -> Self:
        """Learn the division of a training input.

        `X` is a mapping from party to table, and then `parties` is None; or one table, and
        `parties` is None (one party), a number of parties (consecutive columns, as evenly as
        possible) or a mapping from party to columns. Columns are given by name or position; those
        that no party is given stay unused. Raises `DataError` where the tables do not fit together
        and `ConfigurationError` where `parties` does not fit the table.
        """
        source = read_source(X)
        if isinstance(source, Mapping):
            if parties is not None:
                raise ConfigurationError(
                    "X holds one table for each party already; leave parties=None, or pass one "
                    "table that `parties` divides"
                )
            division = cls(tuple(source), tuple(map(Heading.of, source.values())), None)
        else:
            names, shares = _divide(source, parties)
            division = cls(names, (Heading.of(source),), shares)
        if division.n_features == 0:
            n_rows = _common_row_count(source)
            raise DataError(
                f"X has 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required: "
                "no party has a column to learn from"
            )
        return division

    def split(self, X: Any) -> dict[str, Table]:
        """Return each party's table of an input that has the columns of training.

        Raises `DataError` for missing or unknown parties and columns, and different row counts.
        """
        source = read_source(X)
        if self.shares is None:
            return self._take_tables(source)
        if isinstance(source, Mapping):
            raise DataError(
                "X is a mapping, but training had one table; pass one table with the same columns"
            )
        self.headings[0].check(source, "X")
        return {
            party: source.take(share)
            for party, share in zip(self.parties, self.shares, strict=True)
        }

    def _take_tables(self, source: Source) -> dict[str, Table]:
        if not isinstance(source, Mapping):
            raise DataError(
                "X is one table, but training had a table from each party; pass a mapping with "
                f"the tables of {list_names(self.parties)}"
            )
        unknown = [party for party in source if party not in self.parties]
        missing = [party for party in self.parties if party not in source]
        problems = []
        if unknown:
            problems.append(f"X has tables of parties that training had not: {list_names(unknown)}")
        if missing:
            problems.append(f"X lacks the tables of these parties: {list_names(missing)}")
        if problems:
            raise DataError("; ".join(problems))
        for party, heading in zip(self.parties, self.headings, strict=True):
            heading.check(source[party], f"party {party!r}: X", in_order=False)
        tables = zip(self.parties, self.headings, strict=True)
        return {party: heading.arrange(source[party]) for party, heading in tables}

    @property
    def n_features(self) -> int:
        """Return the number of columns of the input."""
        return sum(len(heading.names) for heading in self.headings)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the input's columns, if all have one and all differ."""
        names = tuple(name for heading in self.headings for name in heading.names)
        has_names = all(h.has_names and not h.forgotten for h in self.headings)
        return names if has_names and len(set(names)) == len(names) else None

    @property
    def columns_by_party(self) -> dict[str, tuple[str, ...]]:
        """The names of each party's columns, in its order."""
        if self.shares is None:
            tables = zip(self.parties, self.headings, strict=True)
            return {party: heading.names for party, heading in tables}
        names = self.headings[0].names
        return {
            party: tuple(names[column] for column in share)
            for party, share in zip(self.parties, self.shares, strict=True)
        }

    def join(self, values_by_party: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return one value for each column of the input; 0 where no party holds the column."""
        flat = np.concatenate([values_by_party[party] for party in self.parties])
        if self.shares is None:
            return flat
        joined = np.zeros(self.n_features)
        joined[[column for share in self.shares for column in share]] = flat
        return joined


def read_source(X: Any) -> Source:
    """Read one table, or one for each party of a mapping; tables already read stay as they are."""
    if not is_by_party(X):
        return read_one_table(X)
    if not X:
        raise DataError("X is an empty mapping; pass one table for each party")
    check_party_names(X, DataError)
    row_order.check_tables(X)
    tables = {party: read_party_table(party, table) for party, table in X.items()}
    _common_row_count(tables)
    return tables


def is_by_party(X: Any) -> bool:
    """Whether an input is a mapping from party to table; some sparse tables are mappings, too."""
    return isinstance(X, Mapping) and not hasattr(X, "toarray")


def read_one_table(X: Any) -> Table:
    """Read one table for all parties."""
    if isinstance(X, Table):
        return X
    refuse_no_table(X)
    return read_table(X)


def check_row_order(X: Any, **vectors: Any) -> None:
    """Refuse labels and weights whose index holds the rows of a table in another order."""
    tables = X.values() if is_by_party(X) else [X]
    for table in tables:
        row_order.check_vectors(table, **vectors)


def choose_label_party(label_party: str | None, division: ColumnDivision) -> str:
    """Return the party that owns the labels: the one that is named, else the first."""
    if label_party is None:
        return division.parties[0]
    if label_party not in division.parties:
        raise ConfigurationError(
            f"label_party is {label_party!r}, but the parties are {list_names(division.parties)}"
        )
    return label_party


def read_party_table(party: str, table: Any, *, may_be_empty: bool = False) -> Table:
    """Read the table of one party of a mapping; errors say whose it is."""
    if isinstance(table, Table):
        return table
    try:
        refuse_no_table(table)
        return read_table(table, may_be_empty=may_be_empty)
    except DataError as error:
        raise DataError(
            f"party {party!r}: {error}. (A mapping means one table for each party; pass a single "
            "table as a data frame or an array.)"
        ) from error


def _common_row_count(source: Source) -> int:
    if not isinstance(source, Mapping):
        return source.n_rows
    return common_row_count({party: table.n_rows for party, table in source.items()})


def _divide(table: Table, parties: Parties) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Party names, and the positions of their columns."""
    if parties is None:
        return ("party_0",), (tuple(range(table.n_features)),)
    if isinstance(parties, Mapping):
        if not parties:
            raise ConfigurationError("parties is an empty mapping; name at least one party")
        check_party_names(parties, ConfigurationError)
        return tuple(parties), _find_shares(table, parties)
    if not isinstance(parties, Integral) or isinstance(parties, bool) or parties < 1:
        raise ConfigurationError(
            f"parties is {parties!r}; it must be None, a positive whole number, or a mapping from "
            "party to columns"
        )
    names = tuple(f"party_{number}" for number in range(parties))
    larger, rest = divmod(table.n_features, parties)
    cuts = [number * larger + min(number, rest) for number in range(parties + 1)]
    return names, tuple(tuple(range(first, last)) for first, last in pairwise(cuts))


def _find_shares(table: Table, parties: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    # columns without names are called x0, x1 and so on, as `columns_by_party_` tells
    place_of = {name: place for place, name in enumerate(table.names)}
    owner_of: dict[int, str] = {}
    shares = []
    for party, columns in parties.items():
        share = [_find_column(column, place_of, table, party) for column in _list(columns, party)]
        for column in share:
            if column in owner_of:
                raise ConfigurationError(
                    f"parties gives column {table.names[column]!r} to {owner_of[column]!r} and "
                    f"again to {party!r}; a column has one owner"
                )
            owner_of[column] = party
        shares.append(tuple(share))
    return tuple(shares)


def _list(columns: Any, party: str) -> list[Any]:
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise ConfigurationError(
            f"parties: the columns of {party!r} must be a list of names or positions"
        )
    return list(columns)


def _find_column(column: Any, place_of: Mapping[str, int], table: Table, party: str) -> int:
    if isinstance(column, str) and column in place_of:
        return place_of[column]
    is_position = isinstance(column, Integral) and not isinstance(column, bool | np.bool_)
    if is_position and 0 <= column < table.n_features:
        return int(column)
    raise ConfigurationError(
        f"parties gives {party!r} the column {column!r}, which the table does not have; its "
        f"{table.n_features} columns are {list_names(table.names)}, and 0 to "
        f"{table.n_features - 1} by position"
    )


def check_party_names(names: Iterable[object], error: type[ValueError]) -> None:
    """Refuse what cannot name a party."""
    if not all(isinstance(name, str) and name for name in names):
        raise error("the keys of a mapping of parties are their names: texts that are not empty")


def _itemise(names: list[str]) -> str:
    shown = "".join(f"- {name}\n" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown}- ... and {len(names) - 5} more\n"
