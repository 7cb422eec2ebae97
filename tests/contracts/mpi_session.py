"""The contract of transports between ranks of MPI, run by `mpirun -n 4` as a module.

Rank 0 runs the tests; before each, it tells the other ranks which party to be.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from mpi4py import MPI

from fedforest.transport.base import Transport
from fedforest.transport.mpi import MpiHub, serve_rank
from tests.contracts.endpoints import Spec, build

WORLD = MPI.COMM_WORLD
TESTS = Path(__file__).parent / "test_transports.py"


@contextmanager
def connect_by_mpi(specs: Mapping[str, Spec]) -> Iterator[Transport]:
    WORLD.bcast(json.dumps(list(specs.items())))
    members = WORLD.Split(0, WORLD.rank)
    hub = MpiHub(members)
    yield hub
    hub.close()
    members.Free()


def be_parties() -> None:
    """Play one party after the other until rank 0 is done."""
    while (order := WORLD.bcast(None)) is not None:
        parties = json.loads(order)
        takes_part = WORLD.rank <= len(parties)
        members = WORLD.Split(0 if takes_part else MPI.UNDEFINED, WORLD.rank)
        if takes_part:
            name, spec = parties[WORLD.rank - 1]
            serve_rank(members, name, build(tuple(spec)))
            members.Free()


def main() -> int:
    if WORLD.rank > 0:
        be_parties()
        return 0
    code = pytest.main([str(TESTS), "-q", "-p", "no:cacheprovider", "-k", "mpi"])
    WORLD.bcast(None)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
