"""The contracts of alignment, one for each method: every request once, in this order."""

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.messages import (
    BlindIds,
    BlindLists,
    CompareRows,
    HashIds,
    ShareKey,
    TakeMatches,
    TakeRows,
)
from fedforest.protocol.contract import BEGINNING, Clause, once

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
    Clause(BlindIds, (MeetPeers,), once, "once"),
    Clause(BlindLists, (BlindIds,), once, "once"),
    Clause(TakeMatches, (BlindLists,), once, "once"),
    Clause(CompareRows, (TakeMatches,), once, "once"),
)
