"""Parties of the contract suite as ranks of MPI: rank 0 tells the others which party to be."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mpi4py import MPI

from fedforest.transport.base import Transport
from fedforest.transport.mpi import MpiHub, serve_rank
from tests.contracts.endpoints import Spec, build

WORLD = MPI.COMM_WORLD


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


def end() -> None:
    """Let the other ranks go."""
    WORLD.bcast(None)
