"""The coordinator of scoring.

Who learns what. The coordinator learns figures over all rows that a party scores and, unless they
are withheld, how many rows of each class were taken for which. It chose the votes, so a dishonest
one may choose them to learn about single labels; figures are rounded and a party answers once, so
that this is less than any training under encoded labels tells it anyway.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import Ask, Conversation, Message, blame
from fedforest.protocol.payloads import to_bytes
from fedforest.protocol.scoring.messages import Scored, ScoreOwnVotes, ScoreVotes
from fedforest.tree.scores import Judgement


def score_votes(
    label_party: str, votes: NDArray[np.float64], *, is_regression: bool
) -> Conversation[Judgement]:
    """Have the owner of labels judge what a forest of several parties says."""
    request = ScoreVotes(to_bytes(votes, "<f8"))
    judged = yield from _ask({label_party: request}, is_regression=is_regression)
    return judged[label_party]


def score_own_votes(
    parties: Sequence[str], *, is_regression: bool
) -> Conversation[dict[str, Judgement]]:
    """Have every party judge the model it holds by its own rows."""
    requests: dict[str, Message] = dict.fromkeys(parties, ScoreOwnVotes())
    return (yield from _ask(requests, is_regression=is_regression))


def _ask(
    requests: Mapping[str, Message], *, is_regression: bool
) -> Conversation[dict[str, Judgement]]:
    scored: Mapping[str, Scored] = yield Ask(requests, Scored)
    judged = {}
    for party, reply in scored.items():
        with blame(party):
            judged[party] = reply.scores.read(is_regression=is_regression)
    return judged
