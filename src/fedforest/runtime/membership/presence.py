"""The state of a running coordinator, for commands on its machine: the connected parties.

The coordinator holds a lock while it runs, so that commands ignore the file of a killed one.
"""

import fcntl
from pathlib import Path
from typing import IO

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.recovery.run_store import write_file

_FILE, _LOCK = "presence.json", "running.lock"


class Present(msgspec.Struct, frozen=True):
    """The state of a running coordinator."""

    connected: list[str]  # parties
    revoked: list[str]  # identities whose connections are cut
    releases: dict[str, str] = {}  # of connected parties, as they say


class FolderPresence:
    """The lock of a running coordinator on its folder; a second coordinator is refused."""

    def __init__(self, home: Path) -> None:
        self._path = home / _FILE
        self._told: Present | None = None
        self._lock = (home / _LOCK).open("w")
        if not _is_free(self._lock):
            self._lock.close()
            raise ConfigurationError(f"a coordinator runs with {home} already")

    def __enter__(self) -> "FolderPresence":
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        self._lock.close()

    def tell(self, present: Present) -> None:
        """Write the state if it has changed."""
        if present != self._told:
            write_file(self._path, msgspec.json.encode(present))
            self._told = present


def read_presence(home: Path) -> Present | None:
    """Read the state of a folder's coordinator; None if it does not run."""
    if not (home / _LOCK).exists():
        return None
    with (home / _LOCK).open() as lock:
        if _is_free(lock):
            return None
    try:
        return msgspec.json.decode((home / _FILE).read_bytes(), type=Present)
    except FileNotFoundError:
        return Present([], [])  # the coordinator is starting


def _is_free(lock: IO[str]) -> bool:
    """Try to take the lock, which is held until the file is closed; return whether we got it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
