"""The contract of a prediction: every row sets out once, and then follows its splits.

A request without turns lets rows set out from the roots; all others go on from where the turns
lead. The party itself, which knows where rows stand, checks that rows set out in order, each once,
and that turns are its own outcomes at its own splits (`party.py`).
"""

from typing import NamedTuple

from fedforest.protocol.asking import Handler
from fedforest.protocol.contract import BEGINNING, Clause, Gate
from fedforest.protocol.vertical.prediction.messages import (
    LeapRows,
    RouteRows,
    SweepRows,
    VoteByLeaves,
)


class PredictedRows(NamedTuple):
    """The numbers that the coordinator declares to a party when a prediction begins."""

    n_rows: int


def _count_rows(declared: PredictedRows) -> int:
    return declared.n_rows


def _count_setting_out(request: SweepRows | LeapRows | RouteRows) -> int:
    """How many rows begin at the roots by this request."""
    goes_on = not isinstance(request, SweepRows) and request.turns is not None
    return 0 if goes_on else max(0, request.last_row - request.first_row)


def _count_voted(request: VoteByLeaves) -> int:
    return max(0, request.last_row - request.first_row)


_ANY = (BEGINNING, SweepRows, LeapRows, RouteRows, VoteByLeaves)
_LIMIT = "each row sets out once"
CONTRACT: tuple[Clause[PredictedRows], ...] = (
    *(
        Clause(request, _ANY, _count_rows, _LIMIT, _count_setting_out)
        for request in (SweepRows, LeapRows, RouteRows)
    ),
    Clause(
        VoteByLeaves,
        _ANY,
        _count_rows,
        "each row once, at the label party of encrypted labels",
        _count_voted,
    ),
)


def make_gate(party: Handler, n_rows: int) -> Gate[PredictedRows]:
    """Put the contract in front of a party that predicts so many rows."""
    return Gate(CONTRACT, PredictedRows(n_rows), party)
