"""Parties that predict, each a process of its own, connected over mutual TLS.

A party's service refuses the classical walk, so these processes serve predictions alone: the same
handlers, messages, frames and certificates as in a federation, without its policies and models'
files. A party's partial forest and table come through a pipe from the process that measures.
"""

import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import TransportError
from fedforest.estimators.vertical.model import VerticalModel
from fedforest.estimators.vertical.options import ONE_ROUND
from fedforest.experiments.live.line import CountingLine, Line
from fedforest.protocol.asking import Handler
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction import classical_walk, messages
from fedforest.protocol.vertical.prediction.classical_walk import ClassicalParty, walk_classically
from fedforest.protocol.vertical.prediction.contract import make_gate
from fedforest.protocol.vertical.prediction.coordinator import PredictionOrder, route
from fedforest.protocol.vertical.prediction.party import PredictingParty
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.authority import make_authority
from fedforest.transport.tls import Credentials
from fedforest.tree.table.frames import Table

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from fedforest.transport.grpc.coordinator import GrpcHub

CLASSICAL, ONE_ROUND_NAME, AUTO = "classical", "one round", "auto"
MANNERS = (CLASSICAL, ONE_ROUND_NAME, AUTO)
START_SECONDS = 300.0
STOP_SECONDS = 20.0
_VALID = timedelta(days=1)
_REQUESTS = (*messages.REQUESTS, *classical_walk.REQUESTS)


class Task(NamedTuple):
    """What a party predicts with."""

    model: PartyModel
    table: Table
    is_classical: bool

    def make_handler(self) -> Handler:
        """Make the handler that answers one prediction."""
        if self.is_classical:
            return ClassicalParty(self.model, self.table)
        return make_gate(PredictingParty(self.model, self.table), self.table.n_rows)


class PredictionParties:
    """Party processes, and the coordinator's hub that they are connected to."""

    def __init__(self, folder: Path, parties: tuple[str, ...], line: Line | None = None) -> None:
        self._folder = folder
        self._parties = parties
        self._line = line
        self._pipes: dict[str, Connection] = {}
        self._processes: list[BaseProcess] = []
        self._counting: CountingLine | None = None
        self.hub: GrpcHub

    def __enter__(self) -> Self:
        from fedforest.transport.grpc.coordinator import (  # noqa: PLC0415 - grpc is an extra
            GrpcHub,
        )

        authority = make_authority("experiment", _VALID)
        self.hub = GrpcHub(authority.issue("coordinator", "coordinator", _VALID))
        self.hub.start()
        try:
            address = self.hub.address
            if self._line is not None:
                self._counting = CountingLine(address, self._line)
                address = self._counting.start()
            for party in self._parties:
                home = self._folder / party
                authority.issue("party", party, _VALID).save(home)
                self._start(party, address, home)
            self._wait_for_parties()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def load(self, tasks: Mapping[str, Task]) -> None:
        """Give every party what the next prediction is made with."""
        for party, task in tasks.items():
            self._pipes[party].send(task)
        for party in tasks:
            if not self._pipes[party].poll(START_SECONDS):
                raise TransportError(f"party {party!r} is not ready to predict")
            self._pipes[party].recv()

    def close(self) -> None:
        """End all processes; those that do not end are killed."""
        for pipe in self._pipes.values():
            pipe.close()
        for process in self._processes:
            process.join(STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
        self.hub.close()
        if self._counting is not None:
            self._counting.close()

    def _start(self, party: str, address: str, home: Path) -> None:
        # a new interpreter: gRPC and numba have threads, which a fork would lose
        context = multiprocessing.get_context("spawn")
        self._pipes[party], theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, address, home, party), daemon=True)
        process.start()
        theirs.close()
        self._processes.append(process)

    def _wait_for_parties(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not set(self._parties) <= set(self.hub.connected()):
            ended = [process for process in self._processes if not process.is_alive()]
            if ended or time.monotonic() > deadline:
                raise TransportError("a party of the experiment did not connect")
            time.sleep(0.02)


class TimedPrediction(NamedTuple):
    """The leaves that rows reach, (trees, rows), and the cost of finding out."""

    leaf_of: NDArray[np.int32]
    seconds: float
    n_exchanges: int
    n_bytes: int  # of messages, in both directions


def predict(
    parties: PredictionParties, model: VerticalModel, X: Mapping[str, NDArray[Any]], manner: str
) -> TimedPrediction:
    """Predict rows over the processes in one of `MANNERS`; loading is not timed."""
    tables = model.division.split(X)
    parties.load(
        {
            party: Task(model.shares[party], table, manner == CLASSICAL)
            for party, table in tables.items()
        }
    )
    n_rows = next(iter(tables.values())).n_rows
    pace = parties.hub.network if manner == AUTO else ONE_ROUND
    order = PredictionOrder(
        model.outline, model.division.parties, n_rows, pace, model.coordinator.routes
    )
    log = ExchangeLog()
    started = time.perf_counter()
    conversation = walk_classically(order) if manner == CLASSICAL else route(order)
    leaf_of = run(conversation, parties.hub, log)
    seconds = time.perf_counter() - started
    n_bytes = sum(exchange.n_bytes for exchange in log.exchanges)
    return TimedPrediction(leaf_of, seconds, len(log.exchanges), n_bytes)


class _Endpoint:
    """Answers with the handler of the present task."""

    def __init__(self) -> None:
        self._answer: Callable[[bytes], bytes] | None = None

    def set(self, task: Task) -> None:
        self._answer = make_endpoint(task.make_handler(), _REQUESTS)

    def __call__(self, request: bytes) -> bytes:
        if self._answer is None:
            raise TransportError("the party has no forest to predict with yet")
        return self._answer(request)


def _serve(pipe: Connection, address: str, home: Path, party: str) -> None:
    """Be a party until the other end of the pipe is closed."""
    from fedforest.transport.grpc.party import GrpcLink  # noqa: PLC0415 - grpc is an extra

    endpoint, stop = _Endpoint(), threading.Event()
    link = GrpcLink(address, Credentials.load(home), party, endpoint)
    thread = threading.Thread(target=link.run, args=(stop,), daemon=True)
    thread.start()
    try:
        while True:
            endpoint.set(pipe.recv())
            pipe.send(True)  # noqa: FBT003 - a sign of life, not an option
    except EOFError:
        stop.set()
        thread.join(STOP_SECONDS)
