"""The contracts of alignment, one for each method.

Requests about a list come in pieces. How often follows from the list, which the party counts.
"""

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.messages import (
    BlindIds,
    BlindLists,
    CompareRows,
    FindRows,
    GiveList,
    HashIds,
    ShareKey,
    TakeFound,
    TakeMatches,
    TakeRows,
)
from fedforest.protocol.contract import BEGINNING, Clause, once, unlimited

KEYED_HASH: tuple[Clause[None], ...] = (
    Clause(Introduce, (BEGINNING,), once, "once"),
    Clause(MeetPeers, (Introduce,), once, "once"),
    Clause(ShareKey, (MeetPeers,), once, "once, at the first party"),
    Clause(HashIds, (MeetPeers, ShareKey), once, "once"),
    Clause(TakeRows, (HashIds,), once, "once"),
    Clause(CompareRows, (TakeRows,), once, "once"),
)

PSI: tuple[Clause[None], ...] = (
    Clause(Introduce, (BEGINNING,), once, "once"),
    Clause(MeetPeers, (Introduce,), once, "once"),
    Clause(BlindIds, (MeetPeers, BlindIds), unlimited, "the pieces of the own list"),
    Clause(GiveList, (BlindIds, GiveList, BlindLists), unlimited, "the pieces of the own list"),
    Clause(BlindLists, (GiveList, BlindLists), unlimited, "the pieces of the longest list"),
    Clause(TakeMatches, (GiveList, BlindLists), once, "once"),
    Clause(CompareRows, (TakeMatches,), once, "once"),
)

RECALL: tuple[Clause[None], ...] = (
    Clause(Introduce, (BEGINNING,), once, "once"),
    Clause(MeetPeers, (Introduce,), once, "once"),
    Clause(FindRows, (MeetPeers,), once, "once"),
    Clause(TakeFound, (FindRows,), once, "once"),
    Clause(CompareRows, (TakeFound,), once, "once"),
)
