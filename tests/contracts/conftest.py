"""The transports that keep the contract.

To add one, write a connector: given what parties do, it yields a transport to them.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from fedforest.transport.base import Transport
from fedforest.transport.in_process import InProcess
from tests.contracts.endpoints import Spec, build
from tests.contracts.trainings import Connect
from tests.transport.grpc_federations import GrpcFederation

Connector = Callable[[Mapping[str, Spec]], AbstractContextManager[Transport]]


@contextmanager
def connect_in_process(specs: Mapping[str, Spec]) -> Iterator[Transport]:
    with ThreadPoolExecutor(len(specs)) as executor:
        yield InProcess({party: build(spec) for party, spec in specs.items()}, executor)


@contextmanager
def connect_by_grpc(specs: Mapping[str, Spec]) -> Iterator[Transport]:
    with GrpcFederation() as federation:
        for party, spec in specs.items():
            federation.join(party, build(spec))
        yield federation.hub


def find_connectors() -> dict[str, Connector]:
    """Inside an MPI job the ranks are the parties; everywhere else there are all the others."""
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        from tests.contracts.mpi_session import connect_by_mpi  # noqa: PLC0415 - starts MPI

        return {"mpi": connect_by_mpi}
    return {"in_process": connect_in_process, "grpc": connect_by_grpc}


CONNECTORS = find_connectors()


@pytest.fixture(params=CONNECTORS)
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connects parties that end with the test."""
    connector = CONNECTORS[request.param]
    with ExitStack() as stack:
        yield lambda specs: stack.enter_context(connector(specs))
