"""Every message by which parties find their common rows, after the introduction.

Fields of replies are payloads from the allow-list (`payloads.py`).
"""

from typing import ClassVar

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.payloads import IdCounts, Pseudonyms, RowsProof, SealedKey
from fedforest.protocol.asking import Accepted, Message, Request


class KeyShared(Message, frozen=True):
    """The key, sealed for each of the others in the order of introduction."""

    reveals: ClassVar[str] = "a key that only the party it is sealed for can open"

    keys: tuple[SealedKey, ...]


class ShareKey(Request[KeyShared], frozen=True):
    """To the first party: draw the key of this alignment and seal it for every other party."""

    reveals: ClassVar[str] = "that rows are to be aligned, and with whom"


class IdsHashed(Message, frozen=True):
    """Pseudonyms of the party's ids, in ascending order."""

    reveals: ClassVar[str] = (
        "a keyed hash of each id of the data set, good for this run only, how many there are, "
        "and how many rows have no id of their own"
    )

    counts: IdCounts
    pseudonyms: Pseudonyms


class HashIds(Request[IdsHashed], frozen=True):
    """Hash your ids under the key that the first party sealed; the first party gets none."""

    reveals: ClassVar[str] = "the key of the alignment, to this party alone"

    key: SealedKey | None = None


class RowsTaken(Message, frozen=True):
    """A proof of the taken rows, which the other parties compare with their own."""

    reveals: ClassVar[str] = "a check value of the rows taken, which the other parties compare"

    proof: RowsProof


class TakeRows(Request[RowsTaken], frozen=True):
    """Take the rows whose pseudonyms all parties have: one bit per pseudonym, as you sent them."""

    reveals: ClassVar[str] = "which of its rows all other parties have, too"

    common: memoryview


class CompareRows(Request[Accepted], frozen=True):
    """Compare your rows with the other parties' proofs, in the order of introduction."""

    reveals: ClassVar[str] = "check values of the rows that the other parties took"

    proofs: tuple[RowsProof, ...]


REQUESTS = (Introduce, MeetPeers, ShareKey, HashIds, TakeRows, CompareRows)
