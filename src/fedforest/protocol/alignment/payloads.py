"""The types that may leave a party when rows are aligned.

`MAY_LEAVE` is part of the allow-list of `protocol/payloads.py`; the same test walks it. Only
`Pseudonyms` follow from ids, under a key that the coordinator does not have.
"""

from typing import Annotated, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.masking.key_agreement import KEY_BYTES
from fedforest.masking.pseudonyms import HALVES, sort_pseudonyms
from fedforest.masking.sealing import TAG_BYTES
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.payloads import Count, view_bytes

PROOF_BYTES = 32

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
        check(size.n_left_out <= size.n_rows, "more rows are left out than there are")
        length = size.n_rows - size.n_left_out
        pseudonyms = view_bytes(self.data, HALVES, length, "pseudonyms")
        order = sort_pseudonyms(pseudonyms)
        is_sorted = bool((order == np.arange(length)).all())
        differ = bool((pseudonyms[1:] != pseudonyms[:-1]).all())
        check(is_sorted and differ, "pseudonyms are out of order, or repeated")
        return pseudonyms


class IdCounts(Payload, frozen=True):
    """A party's number of rows, and how many of them have no id or a repeated one."""

    n_rows: Count
    n_left_out: Count


class RowsProof(Payload, frozen=True):
    """A keyed hash of the rows a party took and of its name: for the other parties to compare."""

    data: Annotated[memoryview, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


MAY_LEAVE = (SealedKey, Pseudonyms, IdCounts, RowsProof)
