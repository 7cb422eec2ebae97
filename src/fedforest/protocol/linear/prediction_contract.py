"""The contract of a prediction by a linear model: one request."""

from fedforest.protocol.contract import BEGINNING, Clause, once
from fedforest.protocol.linear.messages import ScoreRows

CONTRACT: tuple[Clause[None], ...] = (Clause(ScoreRows, (BEGINNING,), once, "once"),)
