"""Federations that live in this process: parties on threads, the coordinator in the caller."""

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
    """Threads that parties and kernels share, the calling one among them.

    One more would take turns with the others, which then wait for what it has begun.
    """
    if n_jobs == 1:
        yield ALONE
        return
    with ThreadPoolExecutor(n_jobs - 1, thread_name_prefix="fedforest") as executor:
        yield Workers(executor, n_jobs)


def connect(
    handlers: Mapping[str, Handler], accepted: tuple[type[Message], ...], workers: Workers
) -> InProcess:
    """A transport to these parties."""
    endpoints = {
        party: _name_party(party, make_endpoint(handler, accepted))
        for party, handler in handlers.items()
    }
    return InProcess(endpoints, workers.executor)


def _name_party(party: str, endpoint: Endpoint) -> Endpoint:
    """The same endpoint; where a party cannot use its table, the error says which party."""

    def answer(request: bytes) -> bytes:
        try:
            return endpoint(request)
        except DataError as error:
            raise type(error)(f"party {party!r}: {error}") from error

    return answer
