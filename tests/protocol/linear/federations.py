"""Small federations of linear models, with everything they say on record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.linear.coordinator import LinearOrder, LinearTrained, train
from fedforest.protocol.linear.labels import BinaryLabels, Labels, NumericLabels
from fedforest.protocol.linear.messages import REQUESTS
from fedforest.protocol.linear.party import LinearParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.base import Transport
from fedforest.transport.in_process import InProcess
from fedforest.tree.table.frames import read_table


@dataclass
class Recorder:
    """A transport that keeps every byte it carries."""

    inner: Transport
    sent: list[bytes] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        replies = self.inner.exchange(requests, may_lose=may_lose)
        self.sent.extend(requests.values())
        self.received.extend(replies.values())
        return replies


@dataclass
class Federation:
    """Parties, the first of which has the labels."""

    parties: dict[str, LinearParty]
    order: LinearOrder
    transport: Recorder
    log: ExchangeLog = field(default_factory=ExchangeLog)

    trained: LinearTrained | None = None

    def train(self) -> LinearTrained:
        self.trained = run(train(self.order), self.transport, self.log)
        return self.trained

    def coefficients(self) -> NDArray[np.float64]:
        """Of the standardised terms of all parties that have columns."""
        assert self.trained is not None
        shares = [self.parties[party].share() for party in self.trained.holders]
        return np.concatenate([share.coefficients for share in shares])


def federation(tables: Mapping[str, Any], labels: Labels, **settings: Any) -> Federation:
    first = next(iter(tables))
    parties = {
        party: LinearParty(read_table(table), labels=labels if party == first else None)
        for party, table in tables.items()
    }
    endpoints = {party: make_endpoint(handler, REQUESTS) for party, handler in parties.items()}
    order = LinearOrder(
        tuple(tables),
        first,
        settings.pop("penalty", 1.0),
        is_quadratic=isinstance(labels, NumericLabels),
        max_iter=settings.pop("max_iter", 100),
        tol=settings.pop("tol", 1e-12),
        **settings,
    )
    return Federation(parties, order, Recorder(InProcess(endpoints)))


def correlated(n_rows: int, n_columns: int, seed: int = 0) -> NDArray[np.float64]:
    """Columns that share three causes, so that parties' columns correlate."""
    rng = np.random.default_rng(seed)
    causes = rng.standard_normal((n_rows, 3)) @ rng.standard_normal((3, n_columns))
    return causes + rng.standard_normal((n_rows, n_columns))


def two_classes(X: NDArray[np.float64], seed: int = 1) -> BinaryLabels:
    noise = np.random.default_rng(seed).logistic(size=len(X))
    return BinaryLabels(X.sum(axis=1) / 3.0 + noise > 0.5, np.ones(len(X)))


def numbers(X: NDArray[np.float64], seed: int = 1) -> NumericLabels:
    noise = np.random.default_rng(seed).standard_normal(len(X))
    return NumericLabels(X @ np.arange(1.0, 1.0 + X.shape[1]) + noise + 50.0, np.ones(len(X)))


def divide(X: NDArray[np.float64], cuts: list[int]) -> dict[str, NDArray[np.float64]]:
    return {f"p{place}": part for place, part in enumerate(np.split(X, sorted(cuts), axis=1))}
