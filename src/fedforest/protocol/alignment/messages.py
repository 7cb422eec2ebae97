"""Every message by which parties find their common rows, after the introduction.

Fields of replies are payloads from the allow-list (`payloads.py`).
"""

from typing import ClassVar

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.payloads import (
    BlindedIds,
    FoundIds,
    IdCounts,
    ListSeal,
    Pseudonyms,
    RowsProof,
    SealedKey,
    TwiceBlinded,
)
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
        "how many rows have no id of their own, and the least number of common ones it allows"
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


class IdsBlinded(Message, frozen=True):
    """The party's counts, the same in every reply: so many of its ids are being blinded."""

    reveals: ClassVar[str] = (
        "how many ids the data set has, how many of them are new since an alignment that is "
        "extended, how many rows have no id of their own, and the least number and fraction of "
        "common ones it allows"
    )

    counts: IdCounts


class BlindIds(Request[IdsBlinded], frozen=True):
    """Blind the next piece of your ids; the first time, draw a key, which fixes the list."""

    reveals: ClassVar[str] = "that rows are to be aligned, and with whom"


class ListGiven(Message, frozen=True):
    """The next piece of the party's list, with a seal for each receiver."""

    reveals: ClassVar[str] = (
        "a point for each id of the data set, which only the key of the party leads back"
    )

    points: BlindedIds
    seals: tuple[ListSeal, ...]


class GiveList(Request[ListGiven], frozen=True):
    """Give the next piece of your list.

    The first party that was introduced seals its list for each of the others, they for it alone.
    """

    reveals: ClassVar[str] = "nothing beyond that the run goes on"


class ListsBlinded(Message, frozen=True):
    """The pieces that came, blinded by this party's key, too, each in the order it had."""

    reveals: ClassVar[str] = (
        "which ids of other parties' lists this one has, by points that mean something only "
        "beside those of the same list"
    )

    lists: tuple[TwiceBlinded, ...]


class BlindLists(Request[ListsBlinded], frozen=True):
    """Blind the next piece of each list: of all other parties, or of the first party alone.

    A list that is complete comes with a piece of no points.
    """

    reveals: ClassVar[str] = "how many ids the parties that it meets have"

    lists: tuple[BlindedIds, ...]
    seals: tuple[ListSeal, ...]


class MatchesTaken(Message, frozen=True):
    """For each party that this one meets, a proof of the ids that were put together."""

    reveals: ClassVar[str] = "check values of the rows taken, which the other parties compare"

    proofs: tuple[RowsProof, ...]


class TakeMatches(Request[MatchesTaken], frozen=True):
    """Take the rows whose ids all parties have, as far as none was told of them before.

    `common` is one bit for each entry of the first party's list, as it declared it; `places` are
    where these ids stand in the lists of the others, as 4-byte numbers: at the first party those of
    all others, at the others their own.
    """

    reveals: ClassVar[str] = "which of its rows all other parties have, too"

    common: memoryview
    places: tuple[memoryview, ...]


class RowsFound(Message, frozen=True):
    """Which of the ids that a standing alignment put together have a row in the data set."""

    reveals: ClassVar[str] = (
        "which of the ids that all parties had in a standing alignment have a row in the data set "
        "now, how many rows it has, and how many of them have no id of their own"
    )

    counts: IdCounts
    found: FoundIds


class FindRows(Request[RowsFound], frozen=True):
    """Find the rows of the ids that a standing alignment put together."""

    reveals: ClassVar[str] = "that a standing alignment is used"


class TakeFound(Request[MatchesTaken], frozen=True):
    """Take the rows that all parties found: one bit for each id of the standing alignment."""

    reveals: ClassVar[str] = "which of its rows all other parties have, too"

    common: memoryview


class CompareRows(Request[Accepted], frozen=True):
    """Compare your rows with other parties' proofs, in the order of introduction.

    The proofs are those of all other parties; in an intersection, of those with which this party
    exchanged lists.
    """

    reveals: ClassVar[str] = "check values of the rows that the other parties took"

    proofs: tuple[RowsProof, ...]


REQUESTS = (
    Introduce,
    MeetPeers,
    ShareKey,
    HashIds,
    TakeRows,
    BlindIds,
    GiveList,
    BlindLists,
    TakeMatches,
    FindRows,
    TakeFound,
    CompareRows,
)
