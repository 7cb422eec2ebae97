"""Parties that answer nonsense: the coordinator ends the run by a named error, or trains on.

Bytes that are no reply are blamed on their sender. A lie that could be true is believed: then the
run ends with a forest that can be used, because everything in it was checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import (
    DataError,
    FederationError,
    MaskingError,
    ProtocolError,
    RemoteProtocolError,
)
from fedforest.protocol.aggregation.messages import Counted, MaskedCounted, NoisilyCounted
from fedforest.protocol.aggregation.payloads import MaskedSums, StepEcho
from fedforest.protocol.asking import Message
from fedforest.protocol.horizontal.messages import TableDeclared, ThresholdsProposed
from fedforest.protocol.horizontal.payloads import Points
from fedforest.transport.base import Transport
from fedforest.transport.codec import decode, encode
from tests.protocol.horizontal.federations import OpenTraining, train_openly
from tests.protocol.horizontal.recordings import KINDS, TINY, tiny_shares, train_kind
from tests.protocol.vertical.mutations import little_memory, mutate

FEW, MANY = 34, 670  # of each, in two ways: a thousand in all, or twenty thousand
LIAR = "p1"
NUMBERS = (0, 1, -1, 2, 100, -100, 2**31, 2**32 + 1, -(2**40), 2**52, 2**52 + 1, 2**59, -(2**59))
POINTS = np.array([0.0, -0.0, 1e-45, 3.4e38, -3.4e38, np.nan, 1.0, -1.0, 0.5], np.float32)
REPLIES: dict[str, type[Message]] = {
    "TableDeclared": TableDeclared,
    "ThresholdsProposed": ThresholdsProposed,
    "Counted": Counted,
    "NoisilyCounted": NoisilyCounted,
    "MaskedCounted": MaskedCounted,
}
Spoil = Callable[[bytes], bytes]


@dataclass
class Lying:
    """A transport that spoils one reply of one party."""

    inner: Transport
    at: int
    spoil: Spoil
    n_exchanges: int = 0
    said: list[bytes] = field(default_factory=list)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        replies = self.inner.exchange(requests, may_lose=may_lose)
        if self.n_exchanges == self.at and LIAR in replies:
            self.said.append(self.spoil(replies[LIAR]))
            replies = {**replies, LIAR: self.said[0]}
        self.n_exchanges += 1
        return replies


def train_lied_to(kind: str, at: int, spoil: Spoil) -> OpenTraining:
    target, plug, options = KINDS[kind]
    return train_openly(
        tiny_shares(target), plug, wrap=lambda inner: Lying(inner, at, spoil), **TINY, **options
    )


def places_of(kind: str, reply: str) -> list[int]:
    """Exchanges in which the liar gives such a reply."""
    tag = reply.encode()
    return [
        at
        for at, replies in enumerate(train_kind(kind).recorder.replies)
        if LIAR in replies and tag in replies[LIAR][: len(tag) + 4]
    ]


def assert_survives(kind: str, reply: str, n_lies: int, lie: Callable[..., bytes]) -> int:
    """Whatever one reply is replaced by, the run ends well or by name; how often by name."""
    rng = np.random.default_rng(13)
    places, n_refused = places_of(kind, reply), 0
    for _ in range(n_lies):
        at = places[int(rng.integers(len(places)))]
        try:
            training = train_lied_to(kind, at, lambda data: lie(data, rng))
        except FederationError as refusal:
            assert_is_named(refusal)
            n_refused += 1
        else:
            assert_can_be_used(training)
    return n_refused


def assert_is_named(refusal: FederationError) -> None:
    """By whom where that can be known, and by what is wrong where only the sum is known."""
    if isinstance(refusal, RemoteProtocolError):
        assert refusal.party in (
            LIAR,
            "coordinator",
        )  # or others found fault with what was passed on
    else:
        assert isinstance(refusal, ProtocolError | DataError | MaskingError)


def assert_can_be_used(training: OpenTraining) -> None:
    values = training.trained.forest.leaves.value
    assert np.isfinite(values).all()
    if training.trained.classes is not None:
        assert values.min() >= 0.0
        assert values.max() <= 1.0 + 1e-9


MUTATED = [
    *((kind, "TableDeclared") for kind in ("classes", "weights", "numbers", "local")),
    *((kind, "ThresholdsProposed") for kind in ("classes", "masked", "steps")),
    *((kind, "Counted") for kind in ("classes", "weights", "numbers")),
    *((kind, "NoisilyCounted") for kind in ("local", "global", "bounded")),
    *((kind, "MaskedCounted") for kind in ("masked", "steps")),
]


@pytest.mark.parametrize(("kind", "reply"), MUTATED)
def test_a_mutated_reply_ends_the_run_by_name_or_could_have_been_meant(
    kind: str, reply: str
) -> None:
    with little_memory():
        assert assert_survives(kind, reply, FEW, mutate) > FEW // 3


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "reply"), MUTATED)
def test_many_mutated_replies_end_the_run_by_name_or_could_have_been_meant(
    kind: str, reply: str
) -> None:
    with little_memory():
        assert assert_survives(kind, reply, MANY, mutate) > MANY // 3


def lie_about_numbers(data: bytes, rng: np.random.Generator) -> bytes:
    """A reply that is right in form: some of its numbers are not."""
    reply: Any = decode(data, tuple(REPLIES.values()))
    if isinstance(reply, ThresholdsProposed):
        points = np.frombuffer(reply.points.data, "<f4").copy()
        is_lie = rng.random(len(points)) < 0.5
        points[is_lie] = rng.choice(POINTS, np.count_nonzero(is_lie))
        return encode(ThresholdsProposed(Points.of(points)))
    if isinstance(reply, TableDeclared):
        return encode(_lie_about_table(reply, rng))
    return encode(msgspec.structs.replace(reply, sums=_lie_about_sums(reply.sums, rng)))


def _lie_about_table(reply: TableDeclared, rng: np.random.Generator) -> TableDeclared:
    n_rows = int(rng.choice([0, 1, 2, reply.size.n_rows, 10**6, 2**31 - 1]))
    exponents = [-1074, -1000, -5, 0, 5, 100, 900, 901, 1024]
    changes = {}
    if reply.labels.target_exponent is not None:
        changes["target_exponent"] = int(rng.choice(exponents))
    if rng.random() < 0.5:
        changes["weight_exponent"] = int(rng.choice(exponents))
    return msgspec.structs.replace(
        reply,
        size=msgspec.structs.replace(reply.size, n_rows=n_rows),
        labels=msgspec.structs.replace(reply.labels, **changes),
    )


def _lie_about_sums(sums: Any, rng: np.random.Generator) -> Any:
    if isinstance(sums, MaskedSums):
        masked = np.frombuffer(sums.data, "<u8").copy()
        if len(masked):
            at = int(rng.integers(len(masked)))
            masked[at : at + 1] += np.int64(rng.choice(NUMBERS)).view(np.uint64)
        return MaskedSums.of(masked)
    n_numbers = int(np.count_nonzero(np.frombuffer(sums.data, np.uint8) < 128))
    plain = sums.read(n_numbers)
    if n_numbers:
        at, length = int(rng.integers(n_numbers)), int(rng.choice([1, 1, 3, n_numbers]))
        plain[at : at + length] = rng.choice(NUMBERS)
    return type(sums).of(plain)


@pytest.mark.parametrize(("kind", "reply"), MUTATED)
def test_lies_end_the_run_by_name_or_give_a_forest_that_can_be_used(kind: str, reply: str) -> None:
    with little_memory():
        assert_survives(kind, reply, FEW, lie_about_numbers)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "reply"), MUTATED)
def test_many_lies_end_the_run_by_name_or_give_a_forest_that_can_be_used(
    kind: str, reply: str
) -> None:
    with little_memory():
        assert_survives(kind, reply, MANY, lie_about_numbers)


def refuse(
    kind: str, reply: str, change: Callable[[Any], Any], reason: str, nth: int = 0
) -> FederationError:
    """One reply replaced: the run ends by this reason."""
    at = places_of(kind, reply)[nth]

    def spoil(data: bytes) -> bytes:
        return encode(change(decode(data, (REPLIES[reply],))))

    with pytest.raises(FederationError, match=reason) as caught:
        train_lied_to(kind, at, spoil)
    return caught.value


def changed(message: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(message, **fields)


def by_liar(refusal: FederationError) -> bool:
    return isinstance(refusal, RemoteProtocolError) and refusal.party == LIAR


def test_points_that_cannot_be_thresholds_are_blamed_on_their_sender() -> None:
    for change, reason in (
        (lambda points: np.append(points, 0.0), "points"),
        (lambda points: points[:-1], "points"),
        (lambda points: np.full_like(points, np.inf), "infinite"),
        (lambda points: np.full_like(points, -np.inf), "infinite"),
    ):

        def spoil(reply: Any, change: Any = change) -> Any:
            return ThresholdsProposed(Points.of(change(np.frombuffer(reply.points.data, "<f4"))))

        assert by_liar(refuse("classes", "ThresholdsProposed", spoil, reason))


def test_a_late_reply_is_recognised() -> None:
    for kind, reply in (("classes", "Counted"), ("masked", "MaskedCounted")):
        late = refuse(kind, reply, lambda r: changed(r, step=StepEcho(1)), "late reply", nth=1)
        assert by_liar(late)


@pytest.mark.parametrize(("kind", "more"), [("classes", 100), ("weights", 2**28), ("numbers", 100)])
def test_a_side_that_is_larger_than_its_node_is_refused(kind: str, more: int) -> None:
    """Or its other side would have fewer than no rows, and leaves no class shares."""

    def enlarge(reply: Counted) -> Any:
        n_numbers = int(np.count_nonzero(np.frombuffer(reply.sums.data, np.uint8) < 128))
        plain = reply.sums.read(n_numbers)
        plain[0] += more
        return changed(reply, sums=type(reply.sums).of(plain))

    refusal = refuse(kind, "Counted", enlarge, "more rows on a side than in its node", nth=1)
    assert isinstance(refusal, ProtocolError)


def test_targets_beyond_what_sums_can_hold_are_named() -> None:
    def exaggerate(reply: TableDeclared) -> Any:
        return changed(reply, labels=changed(reply.labels, target_exponent=1000))

    assert isinstance(refuse("numbers", "TableDeclared", exaggerate, "beyond 2"), DataError)


def test_few_bytes_that_claim_to_be_many_rows_take_no_memory() -> None:
    """Trees draw a fraction of rows: what a party says of its own changes nothing at others."""

    def exaggerate(data: bytes) -> bytes:
        reply = decode(data, (TableDeclared,))
        assert isinstance(reply, TableDeclared)
        return encode(changed(reply, size=changed(reply.size, n_rows=2**31 - 1)))

    with little_memory(2**28):
        train_lied_to("classes", places_of("classes", "TableDeclared")[0], exaggerate)
