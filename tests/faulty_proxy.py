"""A TCP proxy that does to bytes and connections what networks do, and worse.

Each connection through it meets the next fault of a list; when the list is used up, connections are
left alone. Nothing of what passes is understood here.
"""

import random
import socket
import threading
import time
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
    REFUSE = auto()  # closed before the first byte


@dataclass(frozen=True)
class Fault:
    """A harm that befalls a connection after so many bytes in one direction."""

    harm: Harm
    after_bytes: int = 0
    from_party: bool = True
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
        self._faults = list(faults)
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

    def retarget(self, target: str) -> None:
        """From now on connections go somewhere else; those that are open are cut."""
        self._target = target
        self.cut()

    def add(self, fault: Fault) -> None:
        """The next connection meets this."""
        self._faults.insert(0, fault)

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
            fault = self._faults.pop(0) if self._faults else None
            if fault is not None and fault.harm is Harm.REFUSE:
                _close(party)
                continue
            self._pass_on(party, fault)

    def _pass_on(self, party: socket.socket, fault: Fault | None) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            coordinator = socket.create_connection((host, int(port)), _DEADLINE_SECONDS)
        except OSError:  # nobody there: as a network would say it
            _close(party)
            return
        coordinator.settimeout(None)
        with self._lock:
            self._open |= {party, coordinator}
        for source, sink, is_from_party in (
            (party, coordinator, True),
            (coordinator, party, False),
        ):
            met = fault if fault is not None and fault.from_party == is_from_party else None
            thread = threading.Thread(target=_pump, args=(source, sink, met), daemon=True)
            self._threads.append(thread)
            thread.start()


def _pump(source: socket.socket, sink: socket.socket, fault: Fault | None) -> None:
    """Pass bytes in one direction until either side is closed."""
    n_passed = 0
    try:
        while chunk := source.recv(_CHUNK):
            if fault is not None and n_passed + len(chunk) > fault.after_bytes:
                harmed = _harm(chunk, fault)
                if fault.harm is Harm.SILENCE:
                    continue
                sink.sendall(harmed)
                if fault.harm in {Harm.DROP, Harm.TRUNCATE}:
                    return
                fault = None
            else:
                sink.sendall(chunk)
            n_passed += len(chunk)
    except OSError:  # closed while bytes were under way: ends like any other connection
        return
    finally:
        _close(source)
        _close(sink)


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
