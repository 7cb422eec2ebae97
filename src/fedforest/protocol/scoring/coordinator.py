"""The coordinator of scoring.

Who learns what. The coordinator learns figures over all rows that a party scores and, unless it is
withheld, the confusion matrix. A dishonest coordinator may choose votes that reveal single labels;
figures are rounded and a party answers once, so this reveals less than any training under encoded
labels does.
"""

from collections.abc import Mapping, Sequence

from fedforest.protocol.asking import Conversation, Request, ask, blame
from fedforest.protocol.scoring.messages import Scored, ScoreLeaves, ScoreOwnVotes, ScoreVotes
from fedforest.tree.forest.metrics import Judgement


def score_there(
    label_party: str, request: ScoreVotes | ScoreLeaves, *, is_regression: bool
) -> Conversation[Judgement]:
    """Have the label party score the votes of a forest of several parties, or what leaves say."""
    judged = yield from _judge({label_party: request}, is_regression=is_regression)
    return judged[label_party]


def score_own_votes(
    parties: Sequence[str], *, is_regression: bool
) -> Conversation[dict[str, Judgement]]:
    """Have every party score its own model on its own rows."""
    requests = dict.fromkeys(parties, ScoreOwnVotes())
    return (yield from _judge(requests, is_regression=is_regression))


def _judge(
    requests: Mapping[str, Request[Scored]], *, is_regression: bool
) -> Conversation[dict[str, Judgement]]:
    scored = yield from ask(requests)
    judged = {}
    for party, reply in scored.items():
        with blame(party):
            judged[party] = reply.scores.read(is_regression=is_regression)
    return judged
