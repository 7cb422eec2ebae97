"""The contract of a linear model: each step asks for one direction, and measures new scores."""

from dataclasses import dataclass

from fedforest.protocol.contract import BEGINNING, Clause, once
from fedforest.protocol.linear.messages import (
    Measure,
    Propose,
    Settle,
    ShareWeights,
    StandardiseColumns,
)

MOST_HALVINGS = 40  # of a step that does not lower the loss enough


@dataclass(frozen=True, slots=True)
class LinearDeclared:
    """The numbers that the coordinator declared to one party."""

    most_steps: int


CONTRACT: tuple[Clause[LinearDeclared], ...] = (
    Clause(ShareWeights, (BEGINNING,), once, "once, at the label party"),
    Clause(StandardiseColumns, (BEGINNING, ShareWeights), once, "once"),
    Clause(
        Measure,
        (StandardiseColumns, Measure, Propose),
        lambda declared: 1 + declared.most_steps * (1 + MOST_HALVINGS),
        "the steps declared, each with its halvings, at the label party",
    ),
    Clause(
        Propose,
        (StandardiseColumns, Measure, Propose),
        lambda declared: declared.most_steps,
        "the steps declared, at a party with columns",
    ),
    Clause(Settle, (StandardiseColumns, Measure, Propose), once, "once, at the end"),
)
