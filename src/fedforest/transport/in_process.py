"""Parties in this process, each answering on a thread of the executor it is given.

Simulation is a transport, not a mode: requests and replies are the same bytes as on a network.
"""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, wait
from functools import partial

from fedforest.errors import ConfigurationError, FederationError, PartyLost
from fedforest.protocol.network import Network

Endpoint = Callable[[bytes], bytes]

# an exchange that is over so soon is sooner over without other threads: waking them, and waiting
# for the interpreter in turns, takes as long as the answers
BRIEF_SECONDS = 6e-4
OPENING_BYTES = 8  # requests that begin alike are taken for the same kind


class InProcess:
    """Exchanges with endpoints in this process; without an executor, one after the other."""

    def __init__(self, endpoints: Mapping[str, Endpoint], executor: Executor | None = None) -> None:
        self._endpoints = dict(endpoints)
        self._executor = executor
        self._seconds: dict[bytes, float] = {}  # of the last exchange of each kind

    network = Network(latency_seconds=4e-4, bytes_per_second=2e9)  # threads and memory

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Let all asked parties answer, and raise the first error among them.

        On an executor it is raised when all are done; one after the other, it ends the exchange.
        Where the last request of the kind was answered in no time, the executor is left alone.
        """
        unknown = sorted(requests.keys() - self._endpoints.keys())
        if unknown:
            raise ConfigurationError(f"there is no party {unknown[0]!r} in this federation")
        kind, started = next(iter(requests.values()), b"")[:OPENING_BYTES], time.perf_counter()
        is_brief = self._seconds.get(kind, math.inf) < BRIEF_SECONDS
        answers = _collect(self._begin(requests, is_brief=is_brief), may_lose=may_lose)
        self._seconds[kind] = time.perf_counter() - started
        return answers

    def _begin(
        self, requests: Mapping[str, bytes], *, is_brief: bool
    ) -> dict[str, Callable[[], bytes]]:
        """For each party what waits for its answer."""
        if self._executor is None or is_brief or len(requests) <= 1:
            return {p: partial(self._endpoints[p], data) for p, data in requests.items()}
        *others, last = requests
        futures = {
            party: self._executor.submit(self._endpoints[party], requests[party])
            for party in others
        }
        try:  # the calling thread would only wait, so it answers for those nobody has begun with
            futures[last] = self._answer(last, requests[last])
            for party in reversed(others):
                if futures[party].cancel():
                    futures[party] = self._answer(party, requests[party])
        finally:
            wait(futures.values())
        return {party: future.result for party, future in futures.items()}

    def _answer(self, party: str, request: bytes) -> Future[bytes]:
        """A party's answer, or its error, from the calling thread."""
        answered: Future[bytes] = Future()
        try:
            answered.set_result(self._endpoints[party](request))
        except FederationError as error:
            answered.set_exception(error)
        return answered


def _collect(waiting: Mapping[str, Callable[[], bytes]], *, may_lose: bool) -> dict[str, bytes]:
    answers = {}
    for party, wait_for_answer in waiting.items():
        try:
            answers[party] = wait_for_answer()
        except PartyLost:
            if not may_lose:
                raise
    return answers
