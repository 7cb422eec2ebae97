"""Every message by which predictions are compared with labels, where the labels are."""

from typing import ClassVar

from fedforest.protocol.asking import Message, Request
from fedforest.protocol.scoring.payloads import ScoreSheet


class Scored(Message, frozen=True):
    """The quality of the predictions."""

    reveals: ClassVar[str] = (
        "scores of predictions over the held-out rows and, where sums are not hidden, how "
        "many rows of each class got which prediction"
    )

    scores: ScoreSheet


class ScoreVotes(Request[Scored], frozen=True):
    """Compare these votes, row by row as you know the rows, with your labels."""

    reveals: ClassVar[str] = (
        "what the model says about each held-out row, to the party that has its label"
    )

    votes: memoryview


class ScoreLeaves(Request[Scored], frozen=True):
    """Vote by these leaves, which you alone know, and compare that with your labels.

    `leaves` are numbers of leaves within their trees, tree after tree.
    """

    reveals: ClassVar[str] = (
        "which leaf each held-out row reaches in each tree, to the party that has its label"
    )

    leaves: memoryview
    hard_votes: bool = False


class ScoreOwnVotes(Request[Scored], frozen=True):
    """Predict your rows with the model you have, and compare that with your labels."""

    reveals: ClassVar[str] = "that its held-out rows are to be scored"


REQUESTS = (ScoreVotes, ScoreLeaves, ScoreOwnVotes)
