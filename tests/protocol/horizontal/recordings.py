"""Honest trainings of several kinds, recorded, so that hostile ones can begin in their middle."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.messages import CountParts
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.order import Participation
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode, encode
from tests.protocol.horizontal.federations import (
    PER_STEP,
    OpenTraining,
    Shares,
    make_parties,
    train_openly,
)
from tests.protocol.vertical.mutations import mutate

TINY: dict[str, Any] = {"n_estimators": 2, "max_depth": 4}
KINDS: dict[str, tuple[str, Plug, dict[str, Any]]] = {
    "classes": ("classes", "plain", {"criterion": "entropy"}),
    "weights": ("weights", "plain", {}),
    "numbers": ("numbers", "plain", {"bootstrap": True}),
    "masked": ("classes", Masked(), {"participation": Participation(0.6, "tree", 2)}),
    "steps": ("classes", Masked(), {"participation": PER_STEP, "class_weight": "balanced"}),
    "local": ("classes", "plain", {"privacy": LocalDP(keep=0.95)}),
    "global": ("classes", "plain", {"privacy": GlobalDP(epsilon_query=2.0)}),
    "bounded": (
        "numbers",
        "plain",
        {"privacy": GlobalDP(epsilon_query=2.0, target_bounds=(-1.0, 4.0))},
    ),
}


def tiny_shares(kind: str, n_rows: int = 60, n_parties: int = 3) -> Shares:
    """Few rows of every kind of column."""
    rng = np.random.default_rng(17)
    X: dict[str, Any] = {
        "small": rng.integers(0, 4, n_rows).astype(float),
        "wide": rng.normal(size=n_rows),
        "gaps": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
        "colour": rng.choice(["red", "green", "blue"], n_rows),
        "flat": np.zeros(n_rows),
    }
    score = X["wide"] + (X["colour"] == "red") + 0.3 * X["small"]
    y = score if kind == "numbers" else np.digitize(score, [0.5, 1.5])
    weights = rng.integers(1, 4, n_rows).astype(float) if kind == "weights" else None
    return Shares(X, y, rng.integers(0, n_parties, n_rows), weights)


@cache
def train_kind(kind: str) -> OpenTraining:
    """One honest training of a kind."""
    target, plug, options = KINDS[kind]
    return train_openly(tiny_shares(target), plug, **TINY, **options)


@dataclass(frozen=True, eq=False)
class Recording:
    """What party p1 was asked in an honest training, what it said, and how to get it back."""

    make_party: Callable[[], HorizontalParty]
    requests: list[bytes]
    replies: list[bytes]

    def steps_of(self, kind: str) -> list[int]:
        """Of this kind, or of one derived from it."""
        kinds = [type(decode(request, REQUESTS)).__mro__ for request in self.requests]
        return [step for step, bases in enumerate(kinds) if kind in [b.__name__ for b in bases]]

    def request(self, step: int) -> Any:
        return decode(self.requests[step], REQUESTS)

    def party_before(self, step: int) -> HorizontalParty:
        """A party that heard everything before a step."""
        party = self.make_party()
        endpoint = make_endpoint(party, REQUESTS)
        for request, reply in zip(self.requests[:step], self.replies[:step], strict=True):
            assert endpoint(request) == reply
        return party

    def assert_goes_on_as_recorded(self, party: HorizontalParty, step: int) -> None:
        """Nothing that the party heard in between has changed it."""
        endpoint = make_endpoint(party, REQUESTS)
        for request, reply in zip(self.requests[step:], self.replies[step:], strict=True):
            assert endpoint(request) == reply


@cache
def record(kind: str) -> Recording:
    """Party p1 in the one training of a kind."""
    training = train_kind(kind)
    target, plug, _ = KINDS[kind]
    sent = zip(training.recorder.requests, training.recorder.replies, strict=True)
    heard = [(requests["p1"], replies["p1"]) for requests, replies in sent if "p1" in requests]
    return Recording(
        lambda: make_parties(tiny_shares(target), training.order, plug)["p1"],
        [request for request, _ in heard],
        [reply for _, reply in heard],
    )


def mutate_request(data: bytes, rng: np.random.Generator) -> bytes:
    """A hostile variant of a request; of counting, every other one is changed in its question."""
    request = decode(data, REQUESTS)
    if not isinstance(request, CountParts) or rng.random() < 0.5:
        return mutate(data, rng)
    place = int(rng.integers(len(request.parts)))
    part = request.parts[place]
    # without a tag: wrapped as if it had one, which mutations leave as it is
    fields = msgspec.msgpack.decode(part.question)
    mutant = mutate(msgspec.msgpack.encode(["question", *fields]), rng)
    question = _unwrap(mutant)
    parts = list(request.parts)
    parts[place] = msgspec.structs.replace(part, question=memoryview(question))
    return encode(msgspec.structs.replace(request, parts=tuple(parts)))


def _unwrap(wrapped: bytes) -> bytes:
    try:
        return msgspec.msgpack.encode(msgspec.msgpack.decode(wrapped)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError):
        return wrapped
