"""Tables by party, or one table and the owner of each row, as rows of parties.

Every party's rows, labels and weights are kept apart from here on. Nothing is learned by looking
across parties that a federation would not exchange: which classes there are is for the protocol.
"""

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.horizontal.columns import match_columns
from fedforest.estimators.inputs import row_order
from fedforest.estimators.inputs.party_tables import (
    check_party_names,
    is_by_party,
    read_one_table,
    read_party_table,
)
from fedforest.estimators.inputs.target_vector import as_vector
from fedforest.tree.table.data_frames import read_vector
from fedforest.tree.table.frames import Table, list_names, read_table
from fedforest.tree.table.target_checks import (
    check_class_labels,
    check_regression_target,
    check_weights,
    count_missing,
)

ONLY_PARTY = "party_0"  # who owns a table whose rows are not divided

Rows: TypeAlias = slice | NDArray[np.int64]
ReadTarget: TypeAlias = Callable[[Any, int], NDArray[Any]]


class PartyRows(NamedTuple):
    """The rows, labels and weights of one party."""

    table: Table
    labels: NDArray[Any]  # class labels as they are, or float64 targets
    weights: NDArray[np.float64] | None  # None at all parties, or at none

    def encode(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the party's own classes in order, and the place of each row's class among them."""
        classes, codes = np.unique(self.labels, return_inverse=True)
        return classes, codes.astype(np.int64, copy=False)


class TrainingInput(NamedTuple):
    """The four arguments of `fit`."""

    X: Any
    y: Any
    sample_weight: Any = None
    party: Any = None


def read_party_rows(given: TrainingInput, *, is_regression: bool) -> dict[str, PartyRows]:
    """Return each party's rows, in the order of the parties.

    Parties of a mapping keep its order, owners of rows are sorted. Raises `DataError` where tables,
    labels, weights or owners do not fit together, and `ConfigurationError` where owners are given
    for tables that come by party already.
    """
    read_target = _read_numbers if is_regression else _read_classes
    if is_by_party(given.X):
        rows = _read_by_party(given, read_target)
    else:
        rows = _read_by_owner(given, read_target)
    n_rows = sum(part.table.n_rows for part in rows.values())
    n_features = next(iter(rows.values())).table.n_features
    if n_rows == 0:
        raise DataError("no party has a row (0 samples in all); there is nothing to learn from")
    if n_features == 0:
        raise DataError(
            f"X has 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required: "
            "the parties have no column to learn from"
        )
    return rows


def _read_by_owner(given: TrainingInput, read_target: ReadTarget) -> dict[str, PartyRows]:
    """Return one table, divided by the owners of its rows."""
    for name, value in (("y", given.y), ("sample_weight", given.sample_weight)):
        if isinstance(value, Mapping):
            raise DataError(
                f"{name} is a mapping, but X is one table; pass mappings from party for both, or "
                f"one {name} for all rows of X"
            )
    table = read_one_table(given.X)
    vectors = {"y": given.y, "sample_weight": given.sample_weight, "party": given.party}
    row_order.check_vectors(given.X, **vectors)
    labels = read_target(given.y, table.n_rows)
    weights = check_weights(given.sample_weight, table.n_rows)
    return {
        party: PartyRows(
            _take_rows(given.X, table, rows),
            labels[rows],
            None if weights is None else weights[rows],
        )
        for party, rows in find_rows(given.party, table.n_rows).items()
    }


def _take_rows(X: Any, table: Table, rows: Rows) -> Table:
    """Return the rows of a table that was read from X."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        return read_table(X[rows])  # whole rows of a matrix: twice as fast as column by column
    return table.take_rows(rows)


def _read_by_party(given: TrainingInput, read_target: ReadTarget) -> dict[str, PartyRows]:
    """Return a mapping of tables, with mappings of labels and weights."""
    if given.party is not None:
        raise ConfigurationError(
            "party names the owner of each row of one table, but X holds a table for each party "
            "already; leave party=None"
        )
    if not given.X:
        raise DataError("X is an empty mapping; pass one table for each party")
    check_party_names(given.X, DataError)
    parties = tuple(given.X)
    tables = match_columns(
        {party: read_party_table(party, given.X[party], may_be_empty=True) for party in parties}
    )
    targets = _take_parts("y", given.y, parties)
    for party in parties:
        row_order.check_vectors(given.X[party], f"party {party!r}: ", y=targets[party])
    labels = {
        party: _blame(party, read_target, targets[party], tables[party].n_rows) for party in parties
    }
    weights = _read_weights(given, tables)
    return {party: PartyRows(tables[party], labels[party], weights[party]) for party in parties}


def _read_weights(
    given: TrainingInput, tables: Mapping[str, Table]
) -> Mapping[str, NDArray[np.float64] | None]:
    """Weights at all parties if one has some; parties whose weights are all one then say so."""
    nobody: dict[str, NDArray[np.float64] | None] = dict.fromkeys(tables)
    if given.sample_weight is None:
        return nobody
    parts = _take_parts("sample_weight", given.sample_weight, tuple(tables))
    for party, own in parts.items():
        row_order.check_vectors(given.X[party], f"party {party!r}: ", sample_weight=own)
    weights = {
        party: _blame(party, check_weights, parts[party], table.n_rows)
        for party, table in tables.items()
    }
    if all(own is None for own in weights.values()):
        return nobody
    return {
        party: np.ones(tables[party].n_rows) if own is None else own
        for party, own in weights.items()
    }


def find_rows(party: ArrayLike | None, n_rows: int) -> dict[str, Rows]:
    """Return the rows of each owner, sorted by owner; consecutive rows are a slice.

    Owners are names, or whole numbers: 0 is called "party_0".
    """
    if party is None:
        return {ONLY_PARTY: slice(0, n_rows)}
    owners = read_vector(party, "party")
    if owners.shape != (n_rows,):
        raise DataError(
            f"party has shape {owners.shape}; expected the owner of each of the {n_rows} rows"
        )
    _check_owners(owners)
    distinct, codes = _number_owners(owners)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return {_name(owner): _shorten(rows) for owner, rows in zip(distinct, parts, strict=True)}


def _number_owners(owners: NDArray[Any]) -> tuple[list[Any], NDArray[np.integer]]:
    """Return (distinct owners, sorted; the number of each row's owner).

    Names are looked up, not sorted row by row: there are few of them. Numbers that fit two bytes
    are sorted in linear time.
    """
    if owners.dtype.kind in "iu":
        found, codes = np.unique(owners, return_inverse=True)
        distinct = found.tolist()
    else:
        values = owners.tolist()
        distinct = sorted(set(values))
        number_of = {owner: number for number, owner in enumerate(distinct)}
        codes = np.fromiter(map(number_of.__getitem__, values), np.int64, len(values))
    return distinct, codes.astype(np.uint16) if len(distinct) < 2**16 else codes


def _check_owners(owners: NDArray[Any]) -> None:
    """Refuse rows whose owner is missing or no name; owners are not shown, only counted."""
    if _all_are(str, owners, "UT"):
        if (owners == "").any():
            raise DataError("party is an empty text in some rows; every row has an owner")
    elif _all_are(Integral, owners, "iu"):
        if (owners < 0).any():
            raise DataError("party is negative in some rows; number the owners from 0 on")
    else:
        n_missing = count_missing(owners)
        if n_missing:
            raise DataError(f"party is missing in {n_missing} row(s); every row has an owner")
        raise DataError(
            "party must hold names, or whole numbers that stand for names, of one kind in all rows"
        )


def _all_are(kind: type, owners: NDArray[Any], dtype_kinds: str) -> bool:
    if owners.dtype.kind != "O":
        return owners.dtype.kind in dtype_kinds
    kinds = set(map(type, owners.tolist()))  # few, however many rows there are
    return all(issubclass(own, kind) and not issubclass(own, bool) for own in kinds)


def _name(owner: str | int) -> str:
    return owner if isinstance(owner, str) else f"party_{owner}"


def _shorten(rows: NDArray[np.int64]) -> Rows:
    """Consecutive rows as a slice, which costs no copy."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def _take_parts(name: str, value: Any, parties: tuple[str, ...]) -> Mapping[str, Any]:
    """Return one entry for each party."""
    if value is None:
        raise DataError(f"training requires {name} to be passed, but the target {name} is None")
    if not isinstance(value, Mapping):
        raise DataError(
            f"X is a mapping of tables, but {name} is not; pass a mapping from party to its {name}"
        )
    unknown = [str(party) for party in value if party not in parties]
    lacking = [party for party in parties if party not in value]
    if unknown:
        raise DataError(f"{name} names parties that X does not have: {list_names(unknown)}")
    if lacking:
        raise DataError(f"{name} lacks these parties of X: {list_names(lacking)}")
    return value


def _blame(party: str, read: Callable[[Any, int], Any], value: Any, n_rows: int) -> Any:
    """Apply `read` to a party's part; errors name the party."""
    try:
        return read(value, n_rows)
    except DataError as error:
        raise DataError(f"party {party!r}: {error}") from None


def _read_classes(y: Any, n_rows: int) -> NDArray[Any]:
    return check_class_labels(as_vector(y, "training"), n_rows)


def _read_numbers(y: Any, n_rows: int) -> NDArray[np.float64]:
    return check_regression_target(as_vector(y, "training"), n_rows)
