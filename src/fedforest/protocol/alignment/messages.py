"""Every message by which parties find the rows they have in common, after they were introduced.

Fields of replies are payloads from the allow-list (`alignment/payloads.py`).
"""

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.payloads import IdCounts, Pseudonyms, RowsProof, SealedKey
from fedforest.protocol.asking import Message


class ShareKey(Message, frozen=True):
    """To the first party: draw the key of this alignment and seal it for every other party."""


class KeyShared(Message, frozen=True):
    """The key, sealed for each of the others in the order of introduction."""

    keys: tuple[SealedKey, ...]


class HashIds(Message, frozen=True):
    """Hash your ids under the key, which the first party sealed for you (and has itself)."""

    key: SealedKey | None = None


class IdsHashed(Message, frozen=True):
    """Pseudonyms of the party's ids, in ascending order."""

    counts: IdCounts
    pseudonyms: Pseudonyms


class TakeRows(Message, frozen=True):
    """Which of your pseudonyms everybody has: one bit for each, in the order in which you sent."""

    common: memoryview


class RowsTaken(Message, frozen=True):
    """What the other parties can compare their own rows with."""

    proof: RowsProof


class CompareRows(Message, frozen=True):
    """What each of the other parties, in the order of introduction, proves to have taken."""

    proofs: tuple[RowsProof, ...]


REQUESTS = (Introduce, MeetPeers, ShareKey, HashIds, TakeRows, CompareRows)
REPLIES = (KeyShared, IdsHashed, RowsTaken)
