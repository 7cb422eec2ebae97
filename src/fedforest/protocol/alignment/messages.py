"""Every message by which parties find the rows they have in common, after they were introduced.

Fields of replies are payloads from the allow-list (`alignment/payloads.py`).
"""

from typing import ClassVar

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.payloads import IdCounts, Pseudonyms, RowsProof, SealedKey
from fedforest.protocol.asking import Message


class ShareKey(Message, frozen=True):
    """To the first party: draw the key of this alignment and seal it for every other party."""

    reveals: ClassVar[str] = "that rows are to be aligned, and with whom"


class KeyShared(Message, frozen=True):
    """The key, sealed for each of the others in the order of introduction."""

    reveals: ClassVar[str] = "a key that only the party it is sealed for can open"

    keys: tuple[SealedKey, ...]


class HashIds(Message, frozen=True):
    """Hash your ids under the key, which the first party sealed for you (and has itself)."""

    reveals: ClassVar[str] = "the key of the alignment, to this party alone"

    key: SealedKey | None = None


class IdsHashed(Message, frozen=True):
    """Pseudonyms of the party's ids, in ascending order."""

    reveals: ClassVar[str] = (
        "a keyed hash of each id of the data set, good for this run only, how many there are, "
        "and how many rows have no id of their own"
    )

    counts: IdCounts
    pseudonyms: Pseudonyms


class TakeRows(Message, frozen=True):
    """Which of your pseudonyms everybody has: one bit for each, in the order in which you sent."""

    reveals: ClassVar[str] = "which of its rows all other parties have, too"

    common: memoryview


class RowsTaken(Message, frozen=True):
    """What the other parties can compare their own rows with."""

    reveals: ClassVar[str] = "a check value of the rows taken, which the other parties compare"

    proof: RowsProof


class CompareRows(Message, frozen=True):
    """What each of the other parties, in the order of introduction, proves to have taken."""

    reveals: ClassVar[str] = "check values of the rows that the other parties took"

    proofs: tuple[RowsProof, ...]


REQUESTS = (Introduce, MeetPeers, ShareKey, HashIds, TakeRows, CompareRows)
REPLIES = (KeyShared, IdsHashed, RowsTaken)
