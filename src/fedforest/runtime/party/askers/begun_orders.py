"""The signed requests that a party began, until each of them could begin nothing any more.

    orders_begun    a line for each: when it ends, and the id of the run or prediction

A line is written when something began, but not synced: after a power failure the last few requests
could begin once more. Runs are on the disk besides.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from fedforest.errors import StorageError
from fedforest.runtime.recovery.run_store import write_file

_FILE = "orders_begun"
_FEW = 1000  # lines that are never worth writing anew


class BegunOrders:
    """Remembers ids until their time is over."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = home / _FILE
        self._clock = clock
        self._lock = Lock()
        self._n_lines = 0
        self._ends: dict[bytes, float] = {}
        for line in self._read():
            self._n_lines += 1
            end, _, text = line.partition(" ")
            try:
                self._ends[bytes.fromhex(text)] = float(end)
            except ValueError:
                continue  # cut off by a power failure

    def has(self, begun: bytes) -> bool:
        """Tell whether this began."""
        return begun in self._ends

    def note(self, begun: bytes, expires: float) -> None:
        """Remember what begins now."""
        with self._lock:
            self._ends[begun] = expires
            if self._n_lines > _FEW + 2 * len(self._ends):
                self._rewrite()
            self._append(_line(expires, begun))

    def _append(self, line: str) -> None:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "w") as stream:
                stream.write(line)
        except OSError as error:
            raise StorageError.of_write(self._path, error) from error
        self._n_lines += 1

    def _rewrite(self) -> None:
        """Drop what is over, which begins nothing any more by its own words."""
        now = self._clock()
        self._ends = {begun: end for begun, end in self._ends.items() if end > now}
        write_file(
            self._path, "".join(_line(end, begun) for begun, end in self._ends.items()).encode()
        )
        self._n_lines = len(self._ends)

    def _read(self) -> list[str]:
        try:
            return self._path.read_text("ascii", "replace").splitlines()
        except FileNotFoundError:
            return []
        except OSError:
            raise StorageError(f"{self._path} cannot be read; restore a copy") from None


def _line(end: float, begun: bytes) -> str:
    return f"{end:.0f} {begun.hex()}\n"
