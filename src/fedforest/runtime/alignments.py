"""The rows a party has in common with others, by alignment: row numbers in the common order.

    <home>/alignments/<id>    one file each, written whole or not at all

A file says which data set it is about and what its ids were. Rows of a data set that has changed
since are not taken for those that were aligned: row numbers would mean other rows.
"""

import re
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.runtime.data_sets import DataSet
from fedforest.runtime.run_store import write_file

_ID = re.compile(r"[0-9a-f]{32}")
_DIGEST_BYTES = 32


class KeptRows(msgspec.Struct, frozen=True, array_like=True):
    """A party's share of an alignment."""

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

    def keep(self, alignment: str, data: str, ids: list[bytes], rows: NDArray[np.int64]) -> None:
        """Store rows of a data set with these ids; on the disk when this returns."""
        kept = KeptRows(data, _digest_ids(ids), rows.astype("<i4").tobytes())
        write_file(self._path(alignment), msgspec.msgpack.encode(kept))

    def has(self, alignment: str) -> bool:
        """Whether rows are kept under this id."""
        return self._path(alignment).exists()

    def read(self, alignment: str) -> KeptRows:
        """What was kept; raises `DataError` where it cannot be read."""
        try:
            return msgspec.msgpack.decode(self._path(alignment).read_bytes(), type=KeptRows)
        except FileNotFoundError:
            raise DataError(
                f"this party has no rows of alignment {alignment}; align anew"
            ) from None
        except msgspec.DecodeError:
            raise DataError(f"the rows of alignment {alignment} are damaged; align anew") from None

    def rows_of(self, alignment: str, data: DataSet) -> NDArray[np.int64]:
        """The rows of a data set; refused if it is not the one, or as it was, when aligned."""
        kept = self.read(alignment)
        if kept.data != data.name:
            raise DataError(f"alignment {alignment} is about another data set than {data.name!r}")
        if kept.ids_digest != _digest_ids(data.ids().tolist()):
            raise DataError(
                f"the ids of data set {data.name!r} have changed since alignment {alignment}; "
                "align anew"
            )
        return kept.rows()

    def _path(self, alignment: str) -> Path:
        if not _ID.fullmatch(alignment):
            raise DataError("an alignment's id is 32 hexadecimal digits; this is none")
        return self._folder / alignment


def _digest_ids(ids: list[bytes]) -> bytes:
    """Differs where a row has another id than before; it stays with the party."""
    digest = blake2b(digest_size=_DIGEST_BYTES, person=b"alignment ids")
    digest.update(np.array([len(each) for each in ids], "<i8").tobytes())
    digest.update(b"".join(ids))
    return digest.digest()
