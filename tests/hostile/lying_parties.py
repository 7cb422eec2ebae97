"""A coordinator's service with honest parties of which one can be made to lie, byte by byte."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedforest.errors import FederationError
from fedforest.protocol.asking import Message
from fedforest.runtime.messages.party_requests import TO_PARTY
from fedforest.transport.codec import decode
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.service_recordings import make_pattern

Lie = Callable[[Message, bytes], bytes]  # (request, honest reply) -> what is answered instead


@contextmanager
def federation_with(folder: Path, **coordinator: Any) -> Iterator[LocalFederation]:
    """Bank and shop, with the tables of `service_recordings`."""
    pattern = make_pattern(folder / "pattern")
    with local_federation(folder / "local", pattern, **coordinator) as federation:
        yield federation


def let_lie(federation: LocalFederation, party: str, lie: Lie) -> None:
    """From now on this party answers what `lie` makes of its honest reply."""
    honest = federation.parties[party].answer

    def answer(data: bytes) -> bytes:
        return lie(decode(data, TO_PARTY), honest(data))

    federation.hub.endpoints[party] = answer


def let_refuse(federation: LocalFederation, party: str, error: FederationError) -> None:
    """From now on this party refuses everything with this error."""

    def refuse(_data: bytes) -> bytes:
        raise error.bare()

    federation.hub.endpoints[party] = refuse
