"""Parties in this process, each answering on a thread of the executor it is given.

Simulation is a transport, not a mode: requests and replies are the same bytes as on a network.
"""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from fedforest.errors import ConfigurationError, FederationError, PartyLost
from fedforest.protocol.network import Network
from fedforest.transport.base import Read
from fedforest.tree.workers import ALONE, Workers

Endpoint = Callable[[bytes], bytes]

# an exchange that is over so soon is sooner over without other threads: waking them, and waiting
# for the interpreter in turns, takes as long as the answers
BRIEF_SECONDS = 9e-4


class InProcess:
    """Exchanges with endpoints in this process; without an executor, one after the other."""

    def __init__(self, endpoints: Mapping[str, Endpoint], executor: Executor | None = None) -> None:
        self._endpoints = dict(endpoints)
        self._executor = executor
        self._seconds: dict[bytes, float] = {}  # of the last exchange of each kind

    network = Network(latency_seconds=1.5e-4, bytes_per_second=2e9)  # threads and memory

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Let all asked parties answer, and raise the first error among them.

        On an executor it is raised when all are done; one after the other, it ends the exchange.
        Where the last request of the kind was answered in no time, the executor is left alone.
        """
        return self.exchange_reading(requests, lambda _party, _answer: None, may_lose=may_lose)

    def exchange_reading(
        self, requests: Mapping[str, bytes], read: Read, *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Exchange; each answer is read by the thread that made it, while others are at work.

        The calling thread takes the first request: it is there before others are awake.
        """
        unknown = sorted(requests.keys() - self._endpoints.keys())
        if unknown:
            raise ConfigurationError(f"there is no party {unknown[0]!r} in this federation")
        kind, started = _kind_of(next(iter(requests.values()), b"")), time.perf_counter()
        is_brief = self._seconds.get(kind, math.inf) < BRIEF_SECONDS
        is_alone = self._executor is None or is_brief or len(requests) <= 1
        outcomes: dict[str, bytes | FederationError] = {}

        def ask(party: str) -> None:
            try:
                answer = self._endpoints[party](requests[party])
                read(party, answer)
                outcomes[party] = answer
            except FederationError as error:
                if is_alone and not (may_lose and isinstance(error, PartyLost)):
                    raise
                outcomes[party] = error

        workers = ALONE if is_alone else Workers(self._executor, len(requests))
        workers.run(ask, requests)
        self._seconds[kind] = time.perf_counter() - started
        return _collect({party: outcomes[party] for party in requests}, may_lose=may_lose)


def _kind_of(request: bytes) -> bytes:
    """Return the name of a message, a short string at its beginning."""
    return bytes(request[2 : 2 + (request[1] & 0x1F)]) if len(request) > 1 else b""


def _collect(
    outcomes: Mapping[str, bytes | FederationError], *, may_lose: bool
) -> dict[str, bytes]:
    answers = {}
    for party, outcome in outcomes.items():
        if not isinstance(outcome, FederationError):
            answers[party] = outcome
        elif not (may_lose and isinstance(outcome, PartyLost)):
            raise outcome
    return answers
