"""The types that may leave a party when rows are aligned.

`MAY_LEAVE` is part of the allow-list of `protocol/payloads.py`; the same test walks it. Only
`Pseudonyms`, under a key that the coordinator does not have, and `BlindedIds` and `TwiceBlinded`,
under keys that nobody else has, follow from ids; `IdForm` follows from a catalogue's entry.
"""

from typing import Annotated, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.masking.blinding import POINT_BYTES, POINTS
from fedforest.masking.key_agreement import KEY_BYTES
from fedforest.masking.pseudonyms import HALVES, sort_pseudonyms
from fedforest.masking.sealing import TAG_BYTES
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.payloads import Count, view_bytes

PROOF_BYTES = 32

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

    With fewer common ids than `least_common`, its policy lets nobody learn which they are.
    """

    n_rows: Count
    n_left_out: Count
    least_common: Count = 1
    form: IdForm = IdForm()

    @property
    def n_ids(self) -> int:
        """The number of ids that stand in one row."""
        check(self.n_left_out <= self.n_rows, "more rows are left out than there are")
        return self.n_rows - self.n_left_out


class BlindedIds(Payload, frozen=True):
    """Points of the ids that occur once, blinded by their owner, sorted: no row order is shown."""

    data: memoryview

    def read(self, size: IdCounts) -> NDArray[np.bytes_]:
        """Read the points of a list of this size, in order and none of them twice."""
        view_bytes(self.data, POINTS, size.n_ids, "blinded ids")
        return self.check_order()

    def check_order(self) -> NDArray[np.bytes_]:
        """Refuse a list whose points do not ascend; one that does repeats none."""
        points = view_bytes(self.data, POINTS, len(self.data) // POINT_BYTES, "blinded ids")
        check(bool((points[1:] > points[:-1]).all()), "points are out of order, or repeated")
        return points


class ListSeal(Payload, frozen=True):
    """A keyed hash of a party's list: shows one receiver whose list it is."""

    data: Annotated[memoryview, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


class TwiceBlinded(Payload, frozen=True):
    """Another party's list, blinded by this party, too, in the order it came in."""

    data: memoryview

    def read(self, n_ids: int) -> NDArray[np.bytes_]:
        """Read as many points as the list has."""
        points = view_bytes(self.data, POINTS, n_ids, "points")
        check(len(np.unique(points)) == n_ids, "points are repeated")
        return points


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
    RowsProof,
)
