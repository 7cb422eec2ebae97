"""A TCP proxy that does to bytes and connections what networks do, and worse.

Faults happen one after the other, each once, when so many bytes have passed since the one before;
when all have happened, connections are left alone. Nothing of what passes is understood here. Under
TLS bytes cannot be changed unnoticed: every fault but a delay ends the connection.
"""

import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

_CHUNK = 2**14
_DEADLINE_SECONDS = 60.0


class Harm(Enum):
    """What happens to a connection."""

    DROP = auto()  # both sides are closed
    TRUNCATE = auto()  # half of a chunk still passes
    DUPLICATE = auto()  # a chunk passes twice
    CORRUPT = auto()  # a byte is changed
    DELAY = auto()  # a chunk waits
    REORDER = auto()  # a chunk changes places with itself: its halves are exchanged
    SILENCE = auto()  # nothing passes any more, and nobody is told
    REFUSE = auto()  # the next connection is closed before its first byte


@dataclass(frozen=True)
class Fault:
    """A harm that befalls whoever is connected after so many bytes, of one direction or of both."""

    harm: Harm
    after_bytes: int = 0
    from_party: bool | None = True  # None: in either direction
    seconds: float = 0.2  # of a delay


def draw_faults(seed: int, n_faults: int, harms: Iterable[Harm] = tuple(Harm)) -> list[Fault]:
    """Faults at random places, in both directions; silences only where they are asked for."""
    rng = random.Random(seed)
    kinds = list(harms)
    return [
        Fault(
            rng.choice(kinds), int(10 ** rng.uniform(1, 5)), rng.random() < 0.5, rng.random() * 0.3
        )
        for _ in range(n_faults)
    ]


class FaultyProxy:
    """Listens on a port of its own and passes everything on to `target`, faults included."""

    def __init__(self, target: str, faults: Iterable[Fault] = ()) -> None:
        self.n_connections = 0
        self._target = target
        self._faults = deque(faults)
        self._n_passed = {True: 0, False: 0}  # since the last fault; from the party, and to it
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._is_closed = False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def n_faults_left(self) -> int:
        return len(self._faults)

    def plan(self, faults: Iterable[Fault]) -> None:
        """From now on these happen as well."""
        with self._lock:
            self._faults.extend(faults)
            self._n_passed = {True: 0, False: 0}

    def cut(self) -> None:
        """Close everything that is open now."""
        with self._lock:
            sockets, self._open = self._open, set()
        for end in sockets:
            _close(end)

    def __enter__(self) -> "FaultyProxy":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        _close(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(_DEADLINE_SECONDS)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                party, _ = self._listener.accept()
            except OSError:  # closed
                return
            self.n_connections += 1
            if self._is_refused():
                _close(party)
                continue
            self._pass_on(party)

    def _is_refused(self) -> bool:
        with self._lock:
            if not self._faults or self._faults[0].harm is not Harm.REFUSE:
                return False
            self._faults.popleft()
            self._n_passed = {True: 0, False: 0}
            return True

    def _pass_on(self, party: socket.socket) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            coordinator = socket.create_connection((host, int(port)), _DEADLINE_SECONDS)
        except OSError:  # nobody there: as a network would say it
            _close(party)
            return
        coordinator.settimeout(None)
        with self._lock:
            self._open |= {party, coordinator}
        for ends in ((party, coordinator, True), (coordinator, party, False)):
            thread = threading.Thread(target=self._pump, args=ends, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_from_party: bool) -> None:
        """Pass bytes in one direction until either side is closed."""
        is_silent = False
        try:
            while chunk := source.recv(_CHUNK):
                fault = None if is_silent else self._next_fault(len(chunk), is_from_party)
                is_silent |= fault is not None and fault.harm is Harm.SILENCE
                if not is_silent:
                    sink.sendall(chunk if fault is None else _harm(chunk, fault))
                if fault is not None and fault.harm in {Harm.DROP, Harm.TRUNCATE}:
                    return
        except OSError:  # closed while bytes were under way: ends like any other connection
            return
        finally:
            _close(source)
            _close(sink)

    def _next_fault(self, n_bytes: int, is_from_party: bool) -> Fault | None:
        """What befalls these bytes."""
        with self._lock:
            self._n_passed[is_from_party] += n_bytes
            if not self._faults or self._faults[0].harm is Harm.REFUSE:
                return None
            fault = self._faults[0]
            if fault.from_party not in (None, is_from_party):
                return None
            counted = (True, False) if fault.from_party is None else (is_from_party,)
            if sum(self._n_passed[direction] for direction in counted) <= fault.after_bytes:
                return None
            self._n_passed = {True: 0, False: 0}
            return self._faults.popleft()


def _harm(chunk: bytes, fault: Fault) -> bytes:
    middle = len(chunk) // 2
    if fault.harm is Harm.DELAY:
        time.sleep(fault.seconds)
    return {
        Harm.DROP: b"",
        Harm.TRUNCATE: chunk[:middle],
        Harm.DUPLICATE: chunk + chunk,
        Harm.CORRUPT: chunk[:middle] + bytes([chunk[middle] ^ 0x10]) + chunk[middle + 1 :],
        Harm.REORDER: chunk[middle:] + chunk[:middle],
    }.get(fault.harm, chunk)


def _close(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:  # the other side was faster
        pass
    finally:
        end.close()
