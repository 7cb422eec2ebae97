"""A relay between a party and its coordinator that does to the bytes what bad networks do.

A fault happens once, when so many bytes have passed since the one before it. Under TLS there is no
way to change bytes unnoticed: every fault but a delay must end the connection.
"""

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Kind = Literal["drop", "delay", "truncate", "duplicate", "corrupt"]
KINDS: tuple[Kind, ...] = ("drop", "delay", "truncate", "duplicate", "corrupt")
DELAY_SECONDS = 0.5
_CHUNK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the bytes that pass then."""

    kind: Kind
    n_bytes: int  # that pass before it


class FaultyProxy:
    """Listens at `address` and relays every connection to the target."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._faults: deque[Fault] = deque()
        self._n_passed = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def plan(self, faults: Sequence[Fault]) -> None:
        """From now on these happen, one after the other."""
        with self._lock:
            self._faults.extend(faults)
            self._n_passed = 0

    @property
    def n_faults_left(self) -> int:
        return len(self._faults)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for end in sockets:
            _shut(end)
        for thread in self._threads:
            thread.join(10.0)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                far = socket.create_connection(self._target, 10.0)
            except OSError:
                near.close()  # as if nobody listened here
                continue
            far.settimeout(None)
            with self._lock:
                self._sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._relay, args=(source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while chunk := source.recv(_CHUNK_BYTES):
                fault = self._next_fault(len(chunk))
                sink.sendall(chunk if fault is None else _spoil(chunk, fault))
                if fault is not None and fault.kind in ("drop", "truncate"):
                    break
        except OSError:
            pass  # the other direction has ended the connection
        finally:
            _shut(source)
            _shut(sink)
            with self._lock:
                self._sockets -= {source, sink}

    def _next_fault(self, n_bytes: int) -> Fault | None:
        with self._lock:
            self._n_passed += n_bytes
            if not self._faults or self._n_passed < self._faults[0].n_bytes:
                return None
            self._n_passed = 0
            return self._faults.popleft()


def _spoil(chunk: bytes, fault: Fault) -> bytes:
    middle = len(chunk) // 2
    if fault.kind == "delay":
        time.sleep(DELAY_SECONDS)
        return chunk
    if fault.kind == "drop":
        return b""
    if fault.kind == "truncate":
        return chunk[:middle]
    if fault.kind == "duplicate":
        return chunk + chunk
    return chunk[:middle] + bytes([chunk[middle] ^ 0x10]) + chunk[middle + 1 :]


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be shut already
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def faulty_proxy(target: str) -> Iterator[FaultyProxy]:
    """A relay to a target that nothing is left of in the end."""
    proxy = FaultyProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
