"""The standing alignments of a party: its keys, and what is known of ids, for a limited time.

    <home>/standing/<id>    one file each, written whole or not at all

An extension is a file of its own, so that a run that is cancelled leaves the one before it as it
was. A file older than that one is removed. So is one that has expired, with its key.
"""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from fedforest.errors import DataError
from fedforest.protocol.alignment.standing_alignment import StandingIds
from fedforest.runtime.messages.roles import AlignmentRole
from fedforest.runtime.party.approval import refusal
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.recovery.run_store import write_file

_ID = re.compile(r"[0-9a-f]{32}")
_DAY_SECONDS = 86_400.0
_MOST_LIVES = 16


class StandingFile(msgspec.Struct, frozen=True, array_like=True):
    """A standing alignment and its life. Times are in seconds since 1970."""

    name: str
    data: str  # the data set whose ids it was made of
    created: float
    expires: float
    ids: StandingIds


class _Life(NamedTuple):
    """What every use of a standing alignment asks of its file."""

    stamp: object  # changes whenever the file does
    data: str
    created: float
    expires: float


class PartyStandingAlignments:
    """Keeps standing alignments under the ids of the runs that made or extended them."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = home / "standing"
        self._clock = clock
        self._lives: dict[str, _Life] = {}
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.remove_expired()

    def keep(self, version: str, ids: StandingIds, role: AlignmentRole) -> None:
        """Store a new one, or the extension of one, which lives as long as that."""
        if role.extends is None:
            now = self._clock()
            file = StandingFile(role.name, role.data, now, now + role.days * _DAY_SECONDS, ids)
        else:
            file = msgspec.structs.replace(self._load(role.extends), ids=ids)
        write_file(self._path(version), msgspec.msgpack.encode(file))
        for other, known in self.files():
            if known.ids.root == ids.root and other not in (version, role.extends):
                self._path(other).unlink(missing_ok=True)

    def read(self, version: str) -> StandingIds:
        """Read one; raises `DataError` if there is none, or it has expired."""
        return self._load(version).ids

    def data_of(self, version: str) -> str:
        """Return the data set whose ids it was made of: its rules hold for every use."""
        return self._life(version).data

    def stamp(self, version: str) -> object:
        """Return what changes whenever the file does; raises as `read` does."""
        return self._life(version).stamp

    def name_of(self, version: str) -> str:
        """Return the name that its maker gave it."""
        return self._load(version).name

    def check(self, version: str, rules: DataSetRules) -> None:
        """Refuse one that is older than the rules of a data set let it become."""
        age = self._clock() - self._life(version).created
        if age > rules.standing_days * _DAY_SECONDS:
            raise refusal("standing_days", "run", limit=rules.standing_days)

    def remove(self, version: str) -> None:
        """Remove one, and all that it was extended from; one that is not there is removed."""
        try:
            root = self._load(version).ids.root
        except DataError:
            return
        for other, known in self.files():
            if known.ids.root == root:
                self._path(other).unlink(missing_ok=True)

    def remove_expired(self) -> None:
        """Remove those whose time is over."""
        now = self._clock()
        for version, file in self.files():
            if file.expires <= now:
                self._path(version).unlink(missing_ok=True)

    def files(self) -> Iterator[tuple[str, StandingFile]]:
        """Yield every readable one, with its id."""
        for path in sorted(self._folder.iterdir()):
            if _ID.fullmatch(path.name):
                try:
                    yield path.name, msgspec.msgpack.decode(path.read_bytes(), type=StandingFile)
                except (msgspec.DecodeError, FileNotFoundError):
                    continue  # `read` names it

    def _life(self, version: str) -> _Life:
        """Read the file only if it has changed: it may have many megabytes of points."""
        try:
            state = self._path(version).stat()
            stamp = (state.st_mtime_ns, state.st_ino, state.st_size)
        except FileNotFoundError:
            stamp = None
        known = self._lives.get(version)
        if known is None or known.stamp != stamp or known.expires <= self._clock():
            file = self._load(version)
            if len(self._lives) >= _MOST_LIVES:
                self._lives.clear()
            known = self._lives[version] = _Life(stamp, file.data, file.created, file.expires)
        return known

    def _load(self, version: str) -> StandingFile:
        try:
            data = self._path(version).read_bytes()
            file = msgspec.msgpack.decode(data, type=StandingFile)
        except FileNotFoundError:
            raise DataError.of("standing.unknown", alignment=version) from None
        except msgspec.DecodeError:
            raise DataError.of("standing.damaged", alignment=version) from None
        if file.expires <= self._clock():
            self._path(version).unlink(missing_ok=True)
            raise DataError.of("standing.expired", alignment=version)
        return file

    def _path(self, version: str) -> Path:
        if not _ID.fullmatch(version):
            raise DataError.stating("an alignment's id is 32 hexadecimal digits; this is none")
        return self._folder / version
