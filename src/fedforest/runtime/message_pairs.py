"""Which reply a request gets, by the name that exchange logs have of it.

Protocols use the same words for the same things, so that a name alone does not tell which message
it is: the order of the run does.
"""

from typing import ClassVar

from fedforest.protocol.aggregation import messages as counting
from fedforest.protocol.alignment import messages as alignment
from fedforest.protocol.asking import Accepted, Message
from fedforest.protocol.horizontal import messages as horizontal
from fedforest.protocol.linear import messages as linear
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.vertical import messages as vertical
from fedforest.protocol.vertical import prediction_messages as prediction
from fedforest.runtime.orders import AlignRows, AnyRun, TrainLinear, TrainVertical

Pairs = dict[type[Message], type[Message]]

_VERTICAL: Pairs = {
    vertical.Prepare: vertical.Prepared,
    vertical.ShareLabels: vertical.LabelsShared,
    vertical.TakeLabels: Accepted,
    vertical.StartTrees: vertical.TreesStarted,
    vertical.FindSplits: vertical.SplitsFound,
    vertical.ApplySplits: vertical.SplitsApplied,
    vertical.FinishTrees: vertical.TreesFinished,
    vertical.WeighColumns: vertical.ColumnsWeighed,
    prediction.SweepRows: prediction.RowsSwept,
    prediction.LeapRows: prediction.RowsLeapt,
    prediction.RouteRows: prediction.RowsRouted,
    prediction.AskSplit: prediction.SplitAsked,
}
_HORIZONTAL: Pairs = {
    horizontal.Prepare: horizontal.Prepared,
    horizontal.AgreeOnTable: Accepted,
    horizontal.ProposeThresholds: horizontal.ThresholdsProposed,
    horizontal.TakeForest: Accepted,
}
_LINEAR: Pairs = {
    linear.ShareWeights: linear.WeightsShared,
    linear.Prepare: linear.Prepared,
    linear.Measure: linear.Measured,
    linear.Propose: linear.Proposed,
    linear.Settle: Accepted,
    linear.ScoreRows: linear.RowsScored,
}
_COUNTING: Pairs = {
    counting.Introduce: counting.Introduced,
    counting.MeetPeers: counting.Met,
    counting.TakeSeeds: Accepted,
    counting.Count: counting.Counted,
    counting.PassOn: counting.Passed,
    counting.ShareOut: counting.SharedOut,
    counting.AddShares: counting.SharesAdded,
}


_AROUND: Pairs = {  # alignment before a training, scores after it
    alignment.ShareKey: alignment.KeyShared,
    alignment.HashIds: alignment.IdsHashed,
    alignment.TakeRows: alignment.RowsTaken,
    alignment.CompareRows: Accepted,
    scoring.ScoreVotes: scoring.Scored,
    scoring.ScoreOwnVotes: scoring.Scored,
}


class Undeclared(Message, frozen=True):
    """Stands for messages that this module does not know: a report says so, and goes on."""

    reveals: ClassVar[str] = "not declared here; read the protocol that it belongs to"


def find_messages(order: AnyRun, request: str) -> tuple[type[Message], type[Message]]:
    """A request of a run by its name, and the reply that it gets there."""
    for asked, reply in pairs_of(order).items():
        if asked.__name__ == request:
            return asked, reply
    return Undeclared, Undeclared


def pairs_of(order: AnyRun) -> Pairs:
    """Every request that a run of this order may ask, and its reply."""
    introducing: Pairs = {
        counting.Introduce: counting.Introduced,
        counting.MeetPeers: counting.Met,
    }
    if isinstance(order, AlignRows):
        return {**introducing, **_AROUND}
    if isinstance(order, TrainLinear):
        return dict(_LINEAR)
    if isinstance(order, TrainVertical):
        return {**_VERTICAL, **introducing, **_AROUND}
    counted: type[Message] = counting.Counted
    if order.aggregation is not None and order.aggregation.name == "Masked":
        counted = counting.MaskedCounted
    elif order.privacy is not None:
        counted = counting.NoisilyCounted
    return {**_HORIZONTAL, **_COUNTING, counting.Count: counted, **_AROUND}
