"""The rows a party has in common with others, by alignment: row numbers in the common order.

    <home>/alignments/<id>    one file each, written whole or not at all

A file names its data set and holds a digest of its ids. If the ids have changed since, the
alignment is refused: its row numbers would mean other rows.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.recovery.run_store import write_file

_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST_BYTES = 32


class KeptRows(msgspec.Struct, frozen=True, array_like=True):
    """The aligned rows of one party."""

    data: str
    ids_digest: bytes
    numbers: bytes  # <i4

    def rows(self) -> NDArray[np.int64]:
        """Numbers of the party's rows, in the common order."""
        return np.frombuffer(self.numbers, "<i4").astype(np.int64)


class Alignments:
    """Keeps rows under the ids of alignments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(
        self, alignment: str, data: str, ids: Sequence[bytes], rows: NDArray[np.int64]
    ) -> None:
        """Store the aligned rows of a data set with these ids; on disk when this returns."""
        kept = KeptRows(data, _digest_ids(ids), rows.astype("<i4").tobytes())
        write_file(self._path(alignment), msgspec.msgpack.encode(kept))

    def has(self, alignment: str) -> bool:
        """Tell whether rows are stored under this id."""
        return self._path(alignment).exists()

    def names(self) -> list[str]:
        """List the ids of all alignments."""
        return sorted(path.name for path in self._folder.iterdir() if _ID.fullmatch(path.name))

    def read(self, alignment: str) -> KeptRows:
        """Read stored rows; raises `DataError` if there are none or the file is damaged."""
        try:
            return msgspec.msgpack.decode(self._path(alignment).read_bytes(), type=KeptRows)
        except FileNotFoundError:
            raise DataError.of("alignment.unknown", alignment=alignment) from None
        except msgspec.DecodeError:
            raise DataError.of("alignment.damaged", alignment=alignment) from None

    def rows_of(self, alignment: str, data: DataSet) -> NDArray[np.int64]:
        """Return the aligned rows; raises `DataError` for another data set or changed ids."""
        kept = self.read(alignment)
        if kept.data != data.name:
            raise DataError.of("alignment.other", alignment=alignment, data_set=data.name)
        if kept.ids_digest != _digest_ids(data.own_ids()):
            raise DataError.of("alignment.ids_changed", alignment=alignment, data_set=data.name)
        return kept.rows()

    def _path(self, alignment: str) -> Path:
        if not _ID.fullmatch(alignment):
            raise DataError.stating("an alignment's id is 32 hexadecimal digits; this is none")
        return self._folder / alignment


def _digest_ids(ids: Sequence[bytes]) -> bytes:
    """Return a digest that changes if any row's id does; it stays with the party."""
    digest = blake2b(digest_size=_DIGEST_BYTES, person=b"alignment ids")
    digest.update(np.array([len(each) for each in ids], "<i8").tobytes())
    digest.update(b"".join(ids))
    return digest.digest()
