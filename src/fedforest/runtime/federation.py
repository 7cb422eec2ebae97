"""Federations in one process: parties on threads, the coordinator on the caller's thread."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from fedforest.errors import DataError
from fedforest.protocol.asking import Handler, Message
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.in_process import Endpoint, InProcess
from fedforest.tree.workers import ALONE, Workers


@contextmanager
def start_workers(n_jobs: int) -> Iterator[Workers]:
    """Start the threads that parties and kernels use; the caller's thread is one of the `n_jobs`.

    With one thread more, threads would compete for cores and wait for one another.
    """
    if n_jobs == 1:
        yield ALONE
        return
    with ThreadPoolExecutor(n_jobs - 1, thread_name_prefix="fedforest") as executor:
        yield Workers(executor, n_jobs)


def connect(
    handlers: Mapping[str, Handler], accepted: tuple[type[Message], ...], workers: Workers
) -> InProcess:
    """Make a transport to these parties."""
    endpoints = {
        party: _name_party(party, make_endpoint(handler, accepted))
        for party, handler in handlers.items()
    }
    return InProcess(endpoints, workers.executor)


def _name_party(party: str, endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint so that a `DataError` names the party."""

    def answer(request: bytes) -> bytes:
        try:
            return endpoint(request)
        except DataError as error:
            raise type(error)(f"party {party!r}: {error}") from error

    return answer
