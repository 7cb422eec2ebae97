"""Every message by which predictions are compared with labels, where the labels are."""

from fedforest.protocol.asking import Message
from fedforest.protocol.scoring.payloads import ScoreSheet


class ScoreVotes(Message, frozen=True):
    """Compare these votes, row by row as you know the rows, with your labels."""

    votes: memoryview


class ScoreOwnVotes(Message, frozen=True):
    """Predict your rows with the model you have, and compare that with your labels."""


class Scored(Message, frozen=True):
    """How good the predictions are."""

    scores: ScoreSheet


REQUESTS = (ScoreVotes, ScoreOwnVotes)
REPLIES = (Scored,)
