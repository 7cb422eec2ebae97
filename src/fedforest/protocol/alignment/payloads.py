"""The types that may leave a party when rows are aligned.

`MAY_LEAVE` is part of the allow-list of `protocol/payloads.py`; the same test walks it. Only
`Pseudonyms`, under a key that the coordinator does not have, and `BlindedIds` and `TwiceBlinded`,
under keys that nobody else has, follow from ids; `FoundIds` from ids that were compared before;
`IdForm` follows from a catalogue's entry.
"""

import struct
from hashlib import blake2b
from typing import Annotated, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.masking.blinding import POINTS
from fedforest.masking.key_agreement import KEY_BYTES
from fedforest.masking.pseudonyms import HALVES, sort_pseudonyms
from fedforest.masking.sealing import TAG_BYTES
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.payloads import Count, view_bytes

PROOF_BYTES = 32
PIECE_IDS = 1 << 13  # of a list in one message: between two of them, progress is told
_PLACE = struct.Struct("<QQ")
NO_REST = bytes(PROOF_BYTES)  # after the last piece of a list

IdCase = Literal["keep", "fold"]
IdUnicode = Literal["NFC", "NFKC"]
IdNumbers = Literal["keep", "plain"]
_SEALED_KEY_BYTES = KEY_BYTES + TAG_BYTES


class SealedKey(Payload, frozen=True):
    """The key that ids are hashed under, encrypted for one other party."""

    data: Annotated[
        memoryview, msgspec.Meta(min_length=_SEALED_KEY_BYTES, max_length=_SEALED_KEY_BYTES)
    ]


class Pseudonyms(Payload, frozen=True):
    """Keyed hashes of the ids that occur once, sorted, so that row order is not revealed."""

    data: memoryview

    @classmethod
    def of(cls, pseudonyms: NDArray[np.void]) -> Self:
        return cls(memoryview(pseudonyms.tobytes()))

    def read(self, size: "IdCounts") -> NDArray[np.void]:
        pseudonyms = view_bytes(self.data, HALVES, size.n_ids, "pseudonyms")
        order = sort_pseudonyms(pseudonyms)
        is_sorted = bool((order == np.arange(size.n_ids)).all())
        differ = bool((pseudonyms[1:] != pseudonyms[:-1]).all())
        check(is_sorted and differ, "pseudonyms are out of order, or repeated")
        return pseudonyms


class IdForm(Payload, frozen=True, eq=True):
    """The rules by which a party writes ids: by other rules, the same id is another one."""

    n_columns: Count = 1
    trim: bool = True
    case: IdCase = "keep"
    unicode: IdUnicode = "NFC"
    numbers: IdNumbers = "keep"

    def differences(self, other: "IdForm") -> str:
        """Name the rules that differ, this form's first; empty where all are the same."""
        return "; ".join(
            f"{name}: {getattr(self, name)} and {getattr(other, name)}"
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(other, name)
        )


class IdCounts(Payload, frozen=True):
    """A party's number of rows, and how many of them have no id or a repeated one.

    With fewer common ids than `least_common`, or than this fraction of the longest list, its policy
    lets no party learn which they are. `n_known` ids were compared before an extension.
    """

    n_rows: Count
    n_left_out: Count
    least_common: Count = 1
    form: IdForm = IdForm()
    least_fraction: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    n_known: Count = 0

    @property
    def n_ids(self) -> int:
        """The number of ids that stand in one row, and were not compared before."""
        n_ids = self.n_rows - self.n_left_out - self.n_known
        check(n_ids >= 0, "more rows are left out than there are")
        return n_ids


class BlindedIds(Payload, frozen=True):
    """A piece of a list: points of ids that occur once, blinded by their owner.

    The points of a list of `n_ids` ascend, so that no row order is shown; the piece begins at the
    entry `start` and is as long as a piece may be, or ends the list. `rest` is the digest of the
    next piece, which holds that of the one after it: the first piece fixes the whole list.
    """

    n_ids: Count
    start: Count
    rest: Annotated[memoryview, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]
    data: memoryview

    def digest(self) -> bytes:
        """Digest the piece and all that follow it; seals cover this."""
        place = _PLACE.pack(self.n_ids, self.start)
        return blake2b(place + bytes(self.rest) + bytes(self.data), digest_size=32).digest()

    @property
    def is_end_only(self) -> bool:
        """Whether the piece says that there are no further points."""
        return self.n_ids == self.start and not self.data

    def read(self) -> NDArray[np.bytes_]:
        """Read the points; refuse a piece that is not full, or whose points do not ascend."""
        n_points = min(PIECE_IDS, self.n_ids - self.start)
        points = view_bytes(self.data, POINTS, n_points, "blinded ids")
        check(bool((points[1:] > points[:-1]).all()), "points are out of order, or repeated")
        return points


class ListSeal(Payload, frozen=True):
    """A keyed hash of a piece of a party's list: shows one receiver whose list it is."""

    data: Annotated[memoryview, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


class TwiceBlinded(Payload, frozen=True):
    """A piece of another party's list, blinded by this party, too, in the order it came in."""

    data: memoryview

    def read(self, n_ids: int) -> NDArray[np.bytes_]:
        """Read as many points as the piece has."""
        return view_bytes(self.data, POINTS, n_ids, "points")


class FoundIds(Payload, frozen=True):
    """One bit for each id of a standing alignment: whether the data set has a row of it."""

    data: memoryview

    def read(self, n_common: int) -> NDArray[np.bool_]:
        """Read as many bits as the alignment has common ids."""
        return read_bits(self.data, n_common)


def read_bits(data: memoryview, n_bits: int) -> NDArray[np.bool_]:
    """Read packed bits, the lowest of a byte first."""
    packed = view_bytes(data, "u1", (n_bits + 7) // 8, "common rows")
    bits = np.unpackbits(packed, bitorder="little")
    check(not bits[n_bits:].any(), "common rows are padded with ones")
    return bits[:n_bits].astype(np.bool_)


def pack_bits(bits: NDArray[np.bool_]) -> memoryview:
    """Pack bits, the lowest of a byte first."""
    return memoryview(np.packbits(bits, bitorder="little").tobytes())


class RowsProof(Payload, frozen=True):
    """A keyed hash of the rows a party took and of its name: for the other parties to compare."""

    data: Annotated[memoryview, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


MAY_LEAVE = (
    SealedKey,
    Pseudonyms,
    IdForm,
    IdCounts,
    BlindedIds,
    ListSeal,
    TwiceBlinded,
    FoundIds,
    RowsProof,
)
