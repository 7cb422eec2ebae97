"""Make the two sides of a sum, the coordinator's and a party's, from the user's option."""

from typing import Literal

from fedforest.errors import LocalProtocolError
from fedforest.masking.key_agreement import Randomness
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Aggregation,
    Aggregator,
)
from fedforest.protocol.aggregation.introduction import PartyIdentity
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
    randomness: Randomness,
    *,
    is_noisy: bool = False,
    least_participants: int = LEAST_PARTICIPANTS,
) -> Aggregation:
    """Make the coordinator's side; `run` must be new, `entropy` the coordinator's own."""
    if isinstance(plug, Masked):
        return MaskedAggregation(run, least_participants=least_participants)
    if isinstance(plug, Ring):
        return RingAggregation(run, randomness, least_participants=least_participants)
    if isinstance(plug, Shamir):
        return ShamirAggregation(
            run, plug.threshold, randomness, least_participants=least_participants
        )
    return PlainAggregation(is_noisy=is_noisy)


def make_aggregator(
    plug: Plug,
    *,
    member: PartyIdentity | None = None,
    is_noisy: bool = False,
    least_participants: int = LEAST_PARTICIPANTS,
) -> Aggregator:
    """Make a party's side; all but plain sums need the key and pins of a `member`."""
    if plug == "plain":
        return PlainAggregator(is_noisy=is_noisy)
    if member is None:
        raise LocalProtocolError("a protected sum needs the party's key and the others' pins")
    if isinstance(plug, Masked):
        return MaskedAggregator(member, k=plug.k, least_participants=least_participants)
    if isinstance(plug, Ring):
        return RingAggregator(member, least_participants=least_participants)
    return ShamirAggregator(member, plug.threshold, least_participants=least_participants)
