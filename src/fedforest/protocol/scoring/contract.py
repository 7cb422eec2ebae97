"""The contract of scoring: one answer, since other votes would tell more of the same labels."""

from fedforest.protocol.contract import BEGINNING, Clause, once
from fedforest.protocol.scoring.messages import ScoreLeaves, ScoreOwnVotes, ScoreVotes

CONTRACT: tuple[Clause[None], ...] = (
    Clause(ScoreVotes, (BEGINNING,), once, "once, where the coordinator has the votes"),
    Clause(ScoreLeaves, (BEGINNING,), once, "once, at the label party of encrypted labels"),
    Clause(ScoreOwnVotes, (BEGINNING,), once, "once, where the party has the model"),
)
