"""The identity of rows: a party finds its memory about a row by the row's key, never its position.

The key of a row is its id if the data set has id columns. Otherwise it is its content: all columns
of the data set, the label among them, whatever columns a run uses. Keys are computed over the whole
table before rows are selected, so that every selection finds the same ones.

Rows with the same content are numbered: they can be told apart by nothing else, and no two rows may
share their noise. How rows are told apart is part of what is remembered (`response_context`): after
another id column or another column of the content all rows have new responses under a new cap.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.masking.key_agreement import join_contexts
from fedforest.runtime.party.catalogue.columns import kind_of
from fedforest.runtime.party.catalogue.ids import DEFAULT_RULES, IdRules, normalise_ids

_WORD = np.dtype("<u8")


@dataclass(frozen=True, slots=True, eq=False)
class RowIdentity:
    """The identity of some rows of a table; keys are computed when they are asked for."""

    table: str  # its identity: `runtime/party/catalogue/tables.py`
    data_set: str
    columns: Any  # pyarrow.Table, of all rows of the table
    id_columns: Any = None  # the same; None where no id is configured
    missing: tuple[str, ...] = ()  # values that the entry reads as missing
    places: NDArray[np.integer] | None = None  # of these rows in the table; None: all
    id_rules: IdRules = DEFAULT_RULES

    def take(self, rows: NDArray[np.integer]) -> "RowIdentity":
        """Return the identity of these rows, in this order."""
        return replace(self, places=rows if self.places is None else self.places[rows])

    def response_context(self, label: str | None) -> bytes:
        """Name all that permanent responses to a label depend on beside the row and parameters."""
        return join_contexts([self.table.encode(), self._scheme(), (label or "").encode()])

    def keys(self, secret: bytes) -> NDArray[np.uint64]:
        """Return a number for each row that is its own, hashed under a secret.

        Raises `DataError` if two rows have the same id.
        """
        keys = self._key_by_content(secret) if self.id_columns is None else self._key_by_id(secret)
        return keys if self.places is None else keys[self.places]

    def _scheme(self) -> bytes:
        """Say how rows are told apart; rows read in another way have other keys."""
        if self.id_columns is not None:
            names = [name.encode() for name in self.id_columns.column_names]
            return join_contexts([b"id", *names, *self._rules()])
        named = [f"{kind_of(self.columns.column(name))} {name}".encode() for name in self._names()]
        columns = join_contexts(named)
        return join_contexts([b"content", columns, *(value.encode() for value in self.missing)])

    def _rules(self) -> list[bytes]:
        """Describe rules that write ids otherwise than the usual ones do."""
        form = self.id_rules.form(0)
        return [] if form == DEFAULT_RULES.form(0) else [repr(form).encode()]

    def _names(self) -> list[str]:
        return sorted(self.columns.column_names)

    def _key_by_id(self, secret: bytes) -> NDArray[np.uint64]:
        keys = _hash_each(
            normalise_ids(self.data_set, self.id_columns, self.id_rules).tolist(), secret
        )
        if len(np.unique(keys)) < len(keys):
            raise DataError.of("ids.shared", data_set=self.data_set)
        return keys

    def _key_by_content(self, secret: bytes) -> NDArray[np.uint64]:
        columns = [_read_words(self.columns.column(name), secret) for name in self._names()]
        records = np.empty((self.columns.num_rows, len(columns)), _WORD)
        for place, words in enumerate(columns):
            records[:, place] = words
        return _number_repeats(_hash_each(_split(records), secret), secret)


def _hash_each(values: Iterable[bytes], secret: bytes) -> NDArray[np.uint64]:
    digests = [
        blake2b(value, digest_size=8, key=secret, person=b"row").digest() for value in values
    ]
    return np.frombuffer(b"".join(digests), _WORD).astype(np.uint64)


def _split(records: NDArray[np.uint64]) -> list[bytes]:
    """Return the bytes of each row of an array of words."""
    whole, width = records.tobytes(), records.shape[1] * _WORD.itemsize
    return [whole[row * width : (row + 1) * width] for row in range(len(records))]


def _read_words(column: Any, secret: bytes) -> NDArray[np.uint64]:
    """Return a word for each value that depends on nothing else, as other rows' types."""
    import pyarrow  # noqa: PLC0415 - only parties with tables need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if kind_of(column) == "number":
        return _read_numbers(column)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_string_view(column.type):  # which pyarrow cannot look up
        column = column.cast(pyarrow.large_string())
    distinct = pc.unique(column)
    words = _hash_each((_write_category(value) for value in distinct.to_pylist()), secret)
    of_rows: NDArray[np.uint64] = words[pc.index_in(column, value_set=distinct).to_numpy()]
    return of_rows


def _read_numbers(column: Any) -> NDArray[np.uint64]:
    """Return the bits of float64: whole numbers become floats when a fraction is appended."""
    import pyarrow  # noqa: PLC0415 - as above

    values = column.cast(pyarrow.float64(), safe=False).to_numpy() + 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan  # one form of a missing value
    words: NDArray[np.uint64] = values.view(np.uint64)
    return words


def _write_category(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        return b"text " + value.encode()
    return b"number " + np.float64(value).tobytes()


def _number_repeats(keys: NDArray[np.uint64], secret: bytes) -> NDArray[np.uint64]:
    """Give rows of the same content keys of their own; the first one keeps its key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    numbers = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    repeats = np.flatnonzero(numbers)
    pairs = np.column_stack([ordered[repeats], numbers[repeats]]).astype(_WORD)
    keys[order[repeats]] = _hash_each(_split(pairs), secret)
    return keys
