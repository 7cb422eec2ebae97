"""From what a user chose to the two sides that do it."""

from typing import Literal

from fedforest.errors import LocalProtocolError
from fedforest.masking.key_agreement import Entropy
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Aggregation,
    Aggregator,
    AnswerQuestions,
)
from fedforest.protocol.aggregation.introduction import Member
from fedforest.protocol.aggregation.masked import MaskedAggregation, MaskedAggregator
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plain import PlainAggregation, PlainAggregator
from fedforest.protocol.aggregation.ring import RingAggregation, RingAggregator
from fedforest.protocol.aggregation.shamir import ShamirAggregation
from fedforest.protocol.aggregation.shamir_party import ShamirAggregator

Plug = Literal["plain"] | Masked | Ring | Shamir


def make_aggregation(
    plug: Plug,
    run: bytes,
    entropy: Entropy,
    *,
    is_noisy: bool = False,
    least_participants: int = LEAST_PARTICIPANTS,
) -> Aggregation:
    """The coordinator's side; a `run` id must be new, `entropy` the coordinator's own."""
    if isinstance(plug, Masked):
        return MaskedAggregation(run, least_participants=least_participants)
    if isinstance(plug, Ring):
        return RingAggregation(run, entropy, least_participants=least_participants)
    if isinstance(plug, Shamir):
        return ShamirAggregation(
            run, plug.threshold, entropy, least_participants=least_participants
        )
    return PlainAggregation(is_noisy=is_noisy)


def make_aggregator(
    plug: Plug,
    answer_questions: AnswerQuestions,
    *,
    member: Member | None = None,
    is_noisy: bool = False,
    least_participants: int = LEAST_PARTICIPANTS,
) -> Aggregator:
    """A party's side; only plain sums do without a `member`'s key and pins."""
    if plug == "plain":
        return PlainAggregator(answer_questions, is_noisy=is_noisy)
    if member is None:
        raise LocalProtocolError("a protected sum needs the party's key and the others' pins")
    if isinstance(plug, Masked):
        return MaskedAggregator(
            member, answer_questions, k=plug.k, least_participants=least_participants
        )
    if isinstance(plug, Ring):
        return RingAggregator(member, answer_questions, least_participants=least_participants)
    return ShamirAggregator(
        member, answer_questions, plug.threshold, least_participants=least_participants
    )
