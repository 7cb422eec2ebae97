"""Parties in this process, each answering on a thread of the executor it is given.

Simulation is a transport, not a mode: requests and replies are the same bytes as on a network.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, wait

from fedforest.errors import ConfigurationError
from fedforest.protocol.vertical.prediction_plan import Network

Endpoint = Callable[[bytes], bytes]


class InProcess:
    """Exchanges with endpoints in this process; without an executor, one after the other."""

    def __init__(self, endpoints: Mapping[str, Endpoint], executor: Executor | None = None) -> None:
        self._endpoints = dict(endpoints)
        self._executor = executor

    network = Network(latency_seconds=2e-4, bytes_per_second=2e9)  # threads and memory

    def exchange(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Let all asked parties answer, and raise the first error among them.

        On an executor it is raised when all are done; one after the other, it ends the exchange.
        """
        unknown = sorted(requests.keys() - self._endpoints.keys())
        if unknown:
            raise ConfigurationError(f"there is no party {unknown[0]!r} in this federation")
        if self._executor is None or len(requests) == 1:
            return {party: self._endpoints[party](data) for party, data in requests.items()}
        *others, last = requests
        futures = {
            party: self._executor.submit(self._endpoints[party], requests[party])
            for party in others
        }
        try:
            answer = self._endpoints[last](requests[last])  # the calling thread would only wait
        finally:
            wait(futures.values())
            replies = {party: future.result() for party, future in futures.items()}
        return {**replies, last: answer}
