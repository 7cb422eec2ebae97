"""Parties as ranks of one MPI job: the papers' engine, for clusters inside one trust domain.

Rank 0 of the communicator is the coordinator, every other rank a party. There is neither encryption
nor proof of identity, and a rank that dies ends the job: between organisations use gRPC. Frames and
travelling errors are those of the gRPC transport; MPI itself cuts long messages.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from mpi4py import MPI

from fedforest.errors import (
    ConfigurationError,
    FederationError,
    PartyLost,
    ProtocolError,
    RemoteProtocolError,
)
from fedforest.protocol.network import Network
from fedforest.transport.error_table import error_of_party, refuse
from fedforest.transport.frames import (
    MAX_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    Forget,
    Frame,
    Hello,
    Piece,
    Refusal,
    check_size,
    check_version,
    decode_frame,
    encode_frame,
)

_LOG = logging.getLogger(__name__)
_COORDINATOR = 0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1e-5, 1e-3  # seconds between looks for a message
_LONGEST_IDLE_PAUSE = 2e-2  # between trainings
_END = Forget(0)  # request ids begin at 1, so that this one ends a party

Endpoint = Callable[[bytes], bytes]


class MpiHub:
    """A transport to all other ranks of a communicator, which must run `serve_rank`."""

    network = Network(latency_seconds=2e-4, bytes_per_second=1e9)

    def __init__(
        self, communicator: Any, *, start_seconds: float = 60.0, answer_seconds: float = 3600.0
    ) -> None:
        if communicator.Get_rank() != _COORDINATOR:
            raise ConfigurationError("the coordinator is rank 0; the other ranks are parties")
        self._communicator = communicator
        self._answer_seconds = answer_seconds
        self._one_at_a_time = threading.Lock()
        self._next_id = 0
        self._rank_of = self._meet(start_seconds)

    def connected(self) -> list[str]:
        """Names of the parties."""
        return sorted(self._rank_of)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Deliver all requests at the same time; return when every party has answered."""
        unknown = sorted(requests.keys() - self._rank_of.keys())
        if unknown:
            raise ConfigurationError(f"there is no party {unknown[0]!r} in this federation")
        for data in requests.values():
            check_size(data, MAX_MESSAGE_BYTES)
        with self._one_at_a_time:
            self._next_id += 1
            frames = {p: Piece(self._next_id, 0, True, memoryview(d)) for p, d in requests.items()}  # noqa: FBT003 - a frame's fields go by position
            with self._sending(frames):
                answers = self._collect(list(requests))
        return _sort_out(requests, answers, may_lose=may_lose)

    def close(self) -> None:
        """Let all parties go."""
        with self._sending(dict.fromkeys(self._rank_of, _END)):
            pass

    def _meet(self, timeout_seconds: float) -> dict[str, int]:
        """Take the hello of every rank."""
        deadline = time.monotonic() + timeout_seconds
        rank_of: dict[str, int] = {}
        for rank in range(1, self._communicator.Get_size()):
            data = _receive(self._communicator, rank, deadline)
            hello = decode_frame(data) if data is not None else None
            if not isinstance(hello, Hello):
                raise ConfigurationError(f"rank {rank} is no party or did not start in time")
            check_version(hello.protocol_version, f"rank {rank}")
            if hello.party in rank_of:
                raise ConfigurationError(f"two ranks are called {hello.party!r}")
            rank_of[hello.party] = rank
        return rank_of

    @contextmanager
    def _sending(self, frames: Mapping[str, Frame]) -> Iterator[None]:
        """Sends go on while the block runs, and are waited for at its end."""
        send = self._communicator.Isend
        buffers = {party: encode_frame(frame) for party, frame in frames.items()}
        sends = [
            send([data, MPI.BYTE], dest=self._rank_of[party]) for party, data in buffers.items()
        ]
        yield
        MPI.Request.Waitall(sends)  # received by now: the parties have answered, or will read

    def _collect(self, parties: list[str]) -> dict[str, bytes | FederationError]:
        deadline = time.monotonic() + self._answer_seconds
        return {party: self._answer_of(party, deadline) for party in parties}

    def _answer_of(self, party: str, deadline: float) -> bytes | FederationError:
        """The answer to the present request; older ones are dropped."""
        while True:
            data = _receive(self._communicator, self._rank_of[party], deadline)
            if data is None:
                seconds = self._answer_seconds
                return PartyLost(f"no reply within {seconds:g} seconds; see its log", party)
            try:
                frame = decode_frame(data)
            except ProtocolError as error:
                return RemoteProtocolError(str(error), party)
            if not isinstance(frame, Piece | Refusal):
                return RemoteProtocolError(f"a party sends no {type(frame).__name__}", party)
            if frame.request_id != self._next_id:
                continue
            return error_of_party(frame, party) if isinstance(frame, Refusal) else bytes(frame.data)


class MpiJob:
    """The MPI job that this process is a rank of, beside the messages of its trainings.

    Rank 0 gives objects to other ranks and takes objects back, pickled: all ranks are one user's.
    """

    def __init__(self) -> None:
        world = MPI.COMM_WORLD
        self.rank: int = world.Get_rank()
        self.size: int = world.Get_size()
        self.traffic = world.Dup()  # of transports
        self._objects = world.Dup()

    def give(self, rank: int, value: Any) -> None:
        """Send an object to a rank."""
        self._objects.send(value, dest=rank)

    def take(self, rank: int) -> Any:
        """Return the next object of a rank; waiting takes no processor time."""
        pause = _SHORTEST_PAUSE
        while (message := self._objects.improbe(source=rank)) is None:
            time.sleep(pause)
            pause = min(1.2 * pause, _LONGEST_IDLE_PAUSE)
        return message.recv()


@cache
def open_job() -> MpiJob:
    """Return the job of this process; all ranks must call it, at the same time."""
    return MpiJob()


@contextmanager
def ending_all_ranks_on_error() -> Iterator[None]:
    """End the job where a rank fails, or the others would wait for it for ever."""
    try:
        yield
    except SystemExit as ended:
        if ended.code:
            MPI.COMM_WORLD.Abort(1)
        raise
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
        raise


def serve_rank(
    communicator: Any, name: str, endpoint: Endpoint, *, idle_seconds: float = 3600.0
) -> None:
    """Be a party: answer requests until the coordinator lets it go or is silent for too long."""
    _send(communicator, Hello(PROTOCOL_VERSION, name))
    while True:
        data = _receive(communicator, _COORDINATOR, time.monotonic() + idle_seconds)
        if data is None:
            raise PartyLost(f"silent for {idle_seconds:g} seconds", "coordinator")
        frame = decode_frame(data)
        if isinstance(frame, Piece):
            _send(communicator, _answer(frame, endpoint))
        elif isinstance(frame, Forget):
            return
        else:
            raise RemoteProtocolError(f"it sends no {type(frame).__name__}", "coordinator")


def _answer(request: Piece, endpoint: Endpoint) -> Frame:
    try:
        reply = endpoint(bytes(request.data))
        check_size(reply, MAX_MESSAGE_BYTES)
    except FederationError as error:
        _LOG.warning(f"a request was refused: {error}")
        return refuse(request.request_id, error, hides_names=True)
    except Exception as error:  # noqa: BLE001 - a bug ends its request, not the party
        _LOG.exception("a request could not be answered")
        return refuse(request.request_id, error, hides_names=True)
    return Piece(request.request_id, 0, True, memoryview(reply))  # noqa: FBT003 - as above


def _send(communicator: Any, frame: Frame) -> None:
    communicator.Send([encode_frame(frame), MPI.BYTE], dest=_COORDINATOR)


def _receive(communicator: Any, rank: int, deadline: float) -> bytes | None:
    """The next message of a rank, or None if it does not come in time.

    MPI's own waiting has no deadline and keeps a core busy.
    """
    pause = _SHORTEST_PAUSE
    status = MPI.Status()
    while (message := communicator.Improbe(source=rank, status=status)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(pause)
        pause = min(1.2 * pause, _LONGEST_PAUSE)
    data = bytearray(status.Get_count(MPI.BYTE))
    message.Recv([data, MPI.BYTE])
    return bytes(data)


def _sort_out(
    requests: Mapping[str, bytes],
    answers: Mapping[str, bytes | FederationError],
    *,
    may_lose: bool,
) -> dict[str, bytes]:
    """Replies in the order of the requests; the first error is raised."""
    replies = {}
    for party in requests:
        answer = answers[party]
        if isinstance(answer, bytes):
            replies[party] = answer
        elif not (may_lose and isinstance(answer, PartyLost)):
            raise answer
    return replies
