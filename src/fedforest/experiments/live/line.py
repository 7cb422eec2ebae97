"""A line between two processes that is as slow as it is told, and counts what passes, over TCP.

Every connection has a line of its own, both directions alike. Bytes leave in order, at the pace of
the bandwidth, and arrive half a round trip later. It runs on a thread of this process and listens
on loopback only. The bytes it counts are those of TCP: frames, TLS and gRPC's own included.
"""

import asyncio
import math
import threading
from typing import NamedTuple

CHUNK_BYTES = 16_384
MOST_CHUNKS = 1_024  # on the line; more than bandwidth times delay, so that it never waits
START_SECONDS = 10.0


class Line(NamedTuple):
    """The properties of a connection."""

    round_trip_seconds: float = 0.0
    bytes_per_second: float = math.inf


class CountingLine:
    """Accepts connections and passes them on to one address."""

    def __init__(self, target: str, line: Line) -> None:
        self._host, _, self._port = target.rpartition(":")
        self._line = line
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self.n_bytes = 0  # of all connections, in both directions

    def start(self) -> str:
        """Return the address to connect to instead of the target."""
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        return f"127.0.0.1:{listening.result(START_SECONDS)}"

    def close(self) -> None:
        """Cut all connections."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _cut(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        onwards = None
        try:
            there, onwards = await asyncio.open_connection(self._host, int(self._port))
            async with asyncio.TaskGroup() as directions:
                for ends in ((reader, onwards), (there, writer)):
                    chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_CHUNKS)
                    directions.create_task(self._take(ends[0], chunks))
                    directions.create_task(self._give(chunks, ends[1]))
        except* OSError:
            pass  # one side is gone: so is the line
        finally:
            self._tasks.discard(task)
            for end in (writer, onwards):
                if end is not None:
                    end.close()

    async def _take(
        self, reader: asyncio.StreamReader, chunks: "asyncio.Queue[tuple[float, bytes]]"
    ) -> None:
        """Note of every chunk when it arrives at the other end."""
        is_free_at = 0.0
        while data := await reader.read(CHUNK_BYTES):
            self.n_bytes += len(data)
            begins = max(is_free_at, self._loop.time())
            is_free_at = begins + len(data) / self._line.bytes_per_second
            await chunks.put((is_free_at + self._line.round_trip_seconds / 2, data))
        raise ConnectionResetError

    async def _give(
        self, chunks: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter
    ) -> None:
        while True:
            arrives_at, data = await chunks.get()
            await asyncio.sleep(arrives_at - self._loop.time())
            writer.write(data)
            await writer.drain()
