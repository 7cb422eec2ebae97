"""Horizontal trainings with everything laid open: who was asked what, and who said what.

The real coordinator and parties run over a transport that keeps all bytes. Secrets of parties come
from a seed, so that runs can be repeated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PartyLost
from fedforest.protocol.aggregation.base import Aggregation
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.asking import Conversation
from fedforest.protocol.horizontal.coordinator.training import train
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.order import HorizontalOrder, Participation, TrainedExtraTrees
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.runtime.trainings.in_process import make_members
from fedforest.transport.base import Transport
from fedforest.transport.in_process import InProcess
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.table.frames import read_table
from fedforest.tree.workers import ALONE, Workers
from tests.protocol.transcripts import Recorder

PartyClass = Callable[..., HorizontalParty]
Coordinate = Callable[[HorizontalOrder, Aggregation], Conversation[TrainedExtraTrees]]


@dataclass(frozen=True, eq=False)
class Shares:
    """Rows of one table, divided among parties."""

    X: Any
    y: NDArray[Any]
    owner: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"p{k}" for k in range(int(self.owner.max(initial=0)) + 1))

    def rows(self, name: str) -> NDArray[np.int64]:
        return np.flatnonzero(self.owner == int(name[1:]))

    def table(self, name: str) -> Any:
        rows = self.rows(name)
        if isinstance(self.X, Mapping):
            columns = {column: np.asarray(values)[rows] for column, values in self.X.items()}
            return read_table(columns, may_be_empty=True)
        return read_table(self.X[rows], may_be_empty=True)

    def labels(self, name: str) -> PartyLabels:
        rows = self.rows(name)
        weights = None if self.weights is None else self.weights[rows]
        return PartyLabels(self.y[rows], weights, self.y.dtype.kind == "f")

    def of_rows(self, rows: Sequence[int]) -> "Shares":
        """These rows only, in this order; columns are given by name."""
        columns = {name: np.asarray(values)[rows] for name, values in self.X.items()}
        weights = None if self.weights is None else self.weights[rows]
        return Shares(columns, self.y[rows], self.owner[rows], weights)

    def alone(self) -> "Shares":
        """The same rows at one party."""
        return Shares(self.X, self.y, np.zeros_like(self.owner), self.weights)


@dataclass(frozen=True)
class OpenTraining:
    """A finished training and its transcript."""

    order: HorizontalOrder
    trained: TrainedExtraTrees
    parties: dict[str, HorizontalParty]
    recorder: Recorder
    log: ExchangeLog


def make_order(shares: Shares, **settings: Any) -> HorizontalOrder:
    """The order of a small forest; order's own fields by name, the rest is the forest's."""
    own = {"privacy", "participation", "class_weight", "least_rows", "batch_bytes", "seed"}
    order = {name: value for name, value in settings.items() if name in own}
    parameters: dict[str, Any] = {"n_estimators": 4, "bootstrap": False}
    parameters |= {name: value for name, value in settings.items() if name not in own}
    if shares.y.dtype.kind == "f":
        parameters = {"task": "regression", "criterion": "squared_error", **parameters}
    order.setdefault("seed", 0)
    return HorizontalOrder(shares.names, ForestParameters(**parameters), **order)


def make_parties(
    shares: Shares,
    order: HorizontalOrder,
    plug: Plug,
    *,
    make_party: PartyClass = HorizontalParty,
    workers: Workers = ALONE,
    **options: Any,
) -> dict[str, HorizontalParty]:
    """Fresh parties with the same secrets every time."""
    randomness_by_party = SystemRandomness(7)
    members = {} if plug == "plain" else make_members(order.parties, randomness_by_party)
    is_noisy = order.privacy is not None
    return {
        name: make_party(
            shares.table(name),
            shares.labels(name),
            randomness_by_party.of(f"{name}/training"),
            make_aggregator(plug, member=members.get(name), is_noisy=is_noisy),
            scope=order.participation.kept_for,
            response_key=randomness_by_party.of(f"{name}/responses")(32),
            workers=workers,
            **options,
        )
        for name in order.parties
    }


def train_openly(
    shares: Shares,
    plug: Plug = "plain",
    *,
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
    party_options: Mapping[str, Any] | None = None,
    coordinate: Coordinate = train,
    **settings: Any,
) -> OpenTraining:
    """Train over a recording transport."""
    order, log = make_order(shares, **settings), ExchangeLog()
    parties = make_parties(shares, order, plug, **(party_options or {}))
    endpoints = {name: make_endpoint(party, REQUESTS) for name, party in parties.items()}
    recorder = Recorder(wrap(InProcess(endpoints)))
    coordinator = SystemRandomness(8).of("coordinator")
    is_noisy = order.privacy is not None
    aggregation = make_aggregation(plug, coordinator(16), coordinator, is_noisy=is_noisy)
    trained = run(coordinate(order, aggregation), recorder, log)
    return OpenTraining(order, trained, parties, recorder, log)


@dataclass
class Losing:
    """A transport that loses a party at its n-th exchange, once and for ever."""

    inner: Transport
    party: str
    at: int
    n_exchanges: int = 0

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self.n_exchanges += 1
        if self.n_exchanges <= self.at or self.party not in requests:
            return self.inner.exchange(requests, may_lose=may_lose)
        if not may_lose:
            raise PartyLost("it stopped answering", self.party)
        others = {name: data for name, data in requests.items() if name != self.party}
        return self.inner.exchange(others, may_lose=may_lose) if others else {}


PER_STEP = Participation(0.5, "step", 2)
