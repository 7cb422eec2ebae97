"""The contract of an alignment: every request once, in this order."""

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.alignment.messages import CompareRows, HashIds, ShareKey, TakeRows
from fedforest.protocol.contract import BEGINNING, Clause, once

CONTRACT: tuple[Clause[None], ...] = (
    Clause(Introduce, (BEGINNING,), once, "once"),
    Clause(MeetPeers, (Introduce,), once, "once"),
    Clause(ShareKey, (MeetPeers,), once, "once, at the first party"),
    Clause(HashIds, (MeetPeers, ShareKey), once, "once"),
    Clause(TakeRows, (HashIds,), once, "once"),
    Clause(CompareRows, (TakeRows,), once, "once"),
)
