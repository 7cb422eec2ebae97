"""Rows that an owner erased: every entry over their table is read without them, from then on.

    <home>/erased/<digest of the table's identity>    one file for each table

An erased row is known by a keyed digest of its id, so the file holds no id. The key lies beside the
digests: a reader of the folder who has an id can tell whether it was erased, and nobody else.
The source is not touched. While rows of it are left out here, its order is no longer that of other
parties' tables, so runs over columns must align it by ids.
"""

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.ids import IdRules, normalise_ids
from fedforest.runtime.recovery.run_store import write_file

_DIGEST_BYTES = 16
_FOLDER = "erased"

ReadIds = Callable[[Sequence[str]], Any]  # the id columns of all rows of a source


class Erasure(msgspec.Struct, frozen=True, array_like=True):
    """Erased rows of one table by the same id columns."""

    columns: tuple[str, ...]
    rules: IdRules
    key: bytes
    digests: frozenset[bytes]
    at: float  # of the last one, in seconds since 1970

    def find(self, data_set: str, ids: Any) -> NDArray[np.bool_]:
        """Tell which rows are erased by their id columns; rows without an id are not."""
        import pyarrow  # noqa: PLC0415 - only parties with tables need it
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        has_id = np.ones(ids.num_rows, np.bool_)
        for column in ids.columns:
            has_id &= pc.is_valid(column).to_numpy()
        known = normalise_ids(data_set, ids.filter(pyarrow.array(has_id)), self.rules)
        found = np.zeros(ids.num_rows, np.bool_)
        digests = self.digests
        found[has_id] = [_digest(self.key, each) in digests for each in known.tolist()]
        return found


class _ErasedOfTable(msgspec.Struct, frozen=True, array_like=True):
    table: str
    erasures: tuple[Erasure, ...]


class ErasedRows:
    """The erased rows of all tables of a party."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = home / _FOLDER
        self._clock = clock
        self._read: dict[str, tuple[object, tuple[Erasure, ...]]] = {}

    def of(self, table: str) -> tuple[Erasure, ...]:
        """Return what was erased of a table; raises `DataError` if its file is damaged."""
        path = self._path(table)
        try:
            state = path.stat()
        except FileNotFoundError:
            return ()
        version = state.st_mtime_ns, state.st_size, state.st_ino
        if table not in self._read or self._read[table][0] != version:
            try:
                found = msgspec.msgpack.decode(path.read_bytes(), type=_ErasedOfTable).erasures
            except msgspec.DecodeError:
                raise DataError.of("erased.damaged", path=path) from None
            self._read[table] = version, found
        return self._read[table][1]

    def version(self, table: str) -> str:
        """Return a text that changes whenever rows of a table are erased; empty before."""
        found = self.of(table)
        if not found:
            return ""
        digest = blake2b(digest_size=_DIGEST_BYTES, person=b"erased rows")
        for erasure in found:
            for each in sorted(erasure.digests):
                digest.update(each)
        return digest.hexdigest()

    def make(
        self, columns: Sequence[str], rules: IdRules, ids: Sequence[bytes], key: bytes
    ) -> Erasure:
        """Describe rows by their normalised ids; nothing is erased yet."""
        digests = frozenset(_digest(key, each) for each in ids)
        return Erasure(tuple(columns), rules, key, digests, self._clock())

    def add(self, table: str, erasure: Erasure) -> None:
        """Leave these rows out of every entry over the table from now on."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = _ErasedOfTable(table, (*self.of(table), erasure))
        write_file(self._path(table), msgspec.msgpack.encode(file))

    def _path(self, table: str) -> Path:
        return self._folder / blake2b(table.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def find_erased(
    data_set: str, erasures: Sequence[Erasure], n_rows: int, read_ids: ReadIds
) -> NDArray[np.bool_]:
    """Tell which rows of a source are erased; raises `DataError` if it has no ids of them."""
    found = np.zeros(n_rows, np.bool_)
    for erasure in erasures:
        ids = read_ids(erasure.columns)
        if ids is None or ids.num_rows != n_rows:
            raise DataError.of("erased.no_id", data_set=data_set)
        found |= erasure.find(data_set, ids)
    return found


def _digest(key: bytes, normalised: bytes) -> bytes:
    return blake2b(normalised, key=key, digest_size=_DIGEST_BYTES, person=b"erased row").digest()
