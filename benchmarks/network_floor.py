"""What a network stack alone takes for the exchanges of a training: gRPC, TLS and the sockets.

Equally long messages travel between the same number of processes, over the same kind of
connection, with none of our code in between: what is in them is thrown away. Each party computes
for as long as it did in the training before it answers, and that time is taken off: a network that
is woken after milliseconds of work by two other processes is slower than one in a tight loop.

Run as `python -m benchmarks.network_floor` in the parties' processes.
"""

import asyncio
import queue
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import grpc

from benchmarks.measure import ROOT
from fedforest.transport.authority import make_authority
from fedforest.transport.grpc.channel import (
    ChannelLimits,
    open_channel,
    server_credentials,
    server_options,
)
from fedforest.transport.grpc.connections import most_connections
from fedforest.transport.tls import Credentials

MODULE = "benchmarks.network_floor"
METHOD = "Echo"
START_SECONDS = 60.0
_VALID = timedelta(days=1)
# The length of this message, the length of its answer, microseconds of work before it.
_HEAD = struct.Struct("<III")
_WORK = bytes(1 << 14)
_LONGEST = 2**20  # of one gRPC message, as in the transport

Steps = Sequence[dict[str, tuple[int, int]]]  # party -> bytes to it, bytes from it
Exchange = dict[str, tuple[int, int, float]]  # party -> bytes to it, bytes from it, its seconds
Work = Sequence[dict[str, float]]  # party -> seconds before it answers


def idle(steps: Steps) -> Work:
    """Nobody works: the network in a tight loop."""
    return [dict.fromkeys(step, 0.0) for step in steps]


def measure(steps: Steps, work: Work, repeats: int) -> list[float]:
    """Seconds of all exchanges, one after the other, less the work in them, for each repeat."""
    parties = sorted({party for step in steps for party in step})
    with tempfile.TemporaryDirectory() as folder:
        authority = make_authority("floor", _VALID)
        authority.issue("coordinator", "coordinator", _VALID).save(Path(folder) / "coordinator")
        for party in parties:
            authority.issue("party", party, _VALID).save(Path(folder) / party)
        exchanges = [
            {party: (*step[party], pause[party]) for party in step}
            for step, pause in zip(steps, work, strict=True)
        ]
        working = sum(max(pause.values()) for pause in work)
        seconds = asyncio.run(_measure(exchanges, repeats, Path(folder), parties))
        return [wall - working for wall in seconds]


async def _measure(
    exchanges: Sequence[Exchange], repeats: int, folder: Path, parties: list[str]
) -> list[float]:
    echoes = _Echoes()
    server = grpc.aio.server(options=server_options(ChannelLimits(), most_connections()))
    handlers = {METHOD: grpc.stream_stream_rpc_method_handler(echoes.serve)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor", handlers),))
    own = Credentials.load(folder / "coordinator")
    credentials = server_credentials(lambda: own)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder / party), party, f"127.0.0.1:{port}"],
            cwd=ROOT,
        )
        for party in parties
    ]
    try:
        async with asyncio.timeout(START_SECONDS):
            while len(echoes.contexts) < len(parties):
                await asyncio.sleep(0.02)
        seconds = []
        for _ in range(repeats):
            started = time.perf_counter()
            for exchange in exchanges:
                await echoes.exchange(exchange)
            seconds.append(time.perf_counter() - started)
        return seconds
    finally:
        for process in processes:
            process.kill()
            process.wait()
        await server.stop(0)


class _Echoes:
    """The coordinator's ends of the connections."""

    def __init__(self) -> None:
        self.contexts: dict[str, Any] = {}
        self._replies: dict[str, asyncio.Future[None]] = {}

    async def serve(self, _: Any, context: Any) -> None:
        name = (await context.read()).decode()
        self.contexts[name] = context
        while (data := await context.read()) is not grpc.aio.EOF:
            left = _HEAD.unpack_from(data)[0] - len(data)
            while left > 0:
                left -= len(await context.read())
            self._replies[name].set_result(None)

    async def exchange(self, step: Exchange) -> None:
        loop = asyncio.get_running_loop()
        for party in step:
            self._replies[party] = loop.create_future()
        for party, (n_to, n_from, seconds) in step.items():
            for piece in _fill(n_to, n_from, seconds):
                await self.contexts[party].write(piece)
        await asyncio.gather(*(self._replies[party] for party in step))


def answer(home: str, name: str, address: str) -> None:
    """A party: takes what comes and sends as many bytes back as it is asked for."""
    outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    outgoing.put(name.encode())
    with open_channel(address, Credentials.load(Path(home))) as channel:
        incoming = channel.stream_stream(f"/floor/{METHOD}")(iter(outgoing.get, None))
        for data in incoming:
            length, wanted, microseconds = _HEAD.unpack_from(data)
            left = length - len(data)
            while left > 0:
                left -= len(next(incoming))
            _work_for(microseconds / 1e6)
            for piece in _fill(wanted, 0):
                outgoing.put(piece)


def _work_for(seconds: float) -> None:
    """Keep a processor busy, as kernels do: without Python's lock."""
    end = time.perf_counter() + seconds
    digest = blake2b()
    while time.perf_counter() < end:
        digest.update(_WORK)


def _fill(length: int, wanted: int, seconds: float = 0.0) -> Iterator[bytes]:
    """A message of this length that asks for one of that length after some work, in pieces."""
    length = max(length, _HEAD.size)
    yield _HEAD.pack(length, wanted, round(1e6 * seconds)) + bytes(
        min(length, _LONGEST) - _HEAD.size
    )
    for start in range(_LONGEST, length, _LONGEST):
        yield bytes(min(_LONGEST, length - start))


if __name__ == "__main__":
    answer(*sys.argv[1:])
