"""What a running coordinator says of itself to commands on its machine: who is connected now.

It holds a lock while it runs, so that nobody takes what a killed one left for the truth.
"""

import fcntl
from pathlib import Path
from typing import IO

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.run_store import write_file

_FILE, _LOCK = "presence.json", "running.lock"


class Present(msgspec.Struct, frozen=True):
    """The state of a running coordinator."""

    connected: list[str]  # parties
    revoked: list[str]  # identities whose connections are cut


class Presence:
    """Held by the coordinator of a folder while it runs; a second one is refused."""

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE
        self._told: Present | None = None
        self._lock = (home / _LOCK).open("w")
        if not _is_free(self._lock):
            self._lock.close()
            raise ConfigurationError(f"a coordinator runs with {home} already")

    def __enter__(self) -> "Presence":
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        self._lock.close()

    def tell(self, present: Present) -> None:
        """Write it down where it is new."""
        if present != self._told:
            write_file(self._path, msgspec.json.encode(present))
            self._told = present


def read_presence(home: Path) -> Present | None:
    """What the coordinator of a folder says, None where none runs."""
    if not (home / _LOCK).exists():
        return None
    with (home / _LOCK).open() as lock:
        if _is_free(lock):
            return None
    try:
        return msgspec.json.decode((home / _FILE).read_bytes(), type=Present)
    except FileNotFoundError:
        return Present([], [])  # it is starting


def _is_free(lock: IO[str]) -> bool:
    """Whether nobody else holds the lock; then we do, until the file is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
