"""The runs of a coordinator or a party: a folder each, readable by its owner only.

    <home>/runs/<run id>/journal    what happened so far; opens with description and secret
                        /<name>     what else is kept, each written whole or not at all
                        /finished   the run is over; its id is never used again. Holds its result

The journal of a party holds what the coordinator told it, labels in the protection of the run among
it, and the secret that masks and noise come from. So the party removes it when the run is over,
unless `keep_journal` is set.
"""

import _thread
import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from fedforest.errors import DamagedJournalError, ReplayError, StorageError
from fedforest.privacy.randomized_response import Randomness
from fedforest.runtime.messages.envelope import RUN_ID_BYTES, RunId
from fedforest.runtime.randomness import SECRET_BYTES, RunRandomness
from fedforest.runtime.recovery.disk import sync_folder
from fedforest.runtime.recovery.journal import Journal

Record = TypeVar("Record", bound=msgspec.Struct)

_JOURNAL = "journal"
_FINISHED = "finished"
_NOTHING: Mapping[str, bytes] = {}


class _Opening(msgspec.Struct, frozen=True, array_like=True):
    """The first record of a run's journal."""

    run: RunId
    secret: bytes
    description: bytes


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that is underway here, and its journal, which nobody else has open."""

    run: bytes
    description: bytes  # whatever a restart needs to build coordinator or party again
    journal: Journal
    _secret: bytes = field(repr=False)

    def randomness(self) -> RunRandomness:
        """The run's randomness from its beginning, the same every time."""
        return RunRandomness(self._secret)

    def write(self, record: msgspec.Struct) -> None:
        """Add to the journal what happened; the journal's `wait` and `sync_soon` say when."""
        self.journal.write(msgspec.msgpack.encode(record))

    def append(self, record: msgspec.Struct) -> None:
        """Add it to the journal; when this returns it is on the disk."""
        self.journal.append(msgspec.msgpack.encode(record))

    def take_back(self) -> None:
        """Remove from the journal what was added last."""
        self.journal.take_back()

    def records(self, kind: type[Record]) -> Iterator[Record]:
        """Read the records so far, one at a time."""
        decoder = msgspec.msgpack.Decoder(kind)
        for number, record in enumerate(self.journal.records(), start=1):
            try:
                yield decoder.decode(record)
            except msgspec.DecodeError:
                raise ReplayError(
                    f"record {number} of the journal {self.journal.path} is of another role or "
                    "release; resume the run where it was begun"
                ) from None

    def close(self) -> None:
        """Let it be opened again, by whoever carries the run on."""
        self.journal.close()


class RunStore:
    """The runs of one coordinator or one party.

    Parameters
    ----------
    home : Path
        The folder that belongs to it; made if it is missing.
    randomness : callable
        Where the secrets of runs are drawn from; tests pass a reproducible one.
    """

    def __init__(self, home: Path, randomness: Randomness = secrets.token_bytes) -> None:
        self._runs = home / "runs"
        self._randomness = randomness
        _make_folder(self._runs)

    def folder(self, run: bytes) -> Path:
        """Return the folder of a run."""
        if len(run) != RUN_ID_BYTES:
            raise StorageError(f"a run id has {RUN_ID_BYTES} bytes, not {len(run)}")
        return self._runs / run.hex()

    def begin(self, run: bytes, description: bytes) -> StoredRun:
        """A new run, on the disk before anything is drawn or sent; its id must be new here."""
        folder = self.folder(run)
        if self.has(run):
            raise StorageError(f"run {run.hex()} was begun here already; resume it instead")
        _make_folder(folder)
        secret = self._randomness(SECRET_BYTES)
        opening = msgspec.msgpack.encode(_Opening(run, secret, description))
        journal = Journal.create(folder / _JOURNAL, opening)
        sync_folder(self._runs)
        return StoredRun(run, description, journal, secret)

    def open(self, run: bytes) -> StoredRun:
        """A run that was begun before and is not finished."""
        folder = self.folder(run)
        if self.is_finished(run):
            raise StorageError(f"run {run.hex()} is over; there is nothing to resume")
        if not self.has(run):
            raise StorageError(f"there is no run {run.hex()} here; begin it first")
        journal = Journal.open(folder / _JOURNAL)
        try:
            opening = msgspec.msgpack.decode(journal.opening, type=_Opening)
        except msgspec.DecodeError:
            journal.close()
            raise DamagedJournalError(
                f"the journal {journal.path} is not one of a run; begin the run anew"
            ) from None
        if opening.run != run:
            journal.close()
            raise DamagedJournalError(f"the journal {journal.path} is of another run; put it back")
        return StoredRun(run, opening.description, journal, opening.secret)

    def has(self, run: bytes) -> bool:
        """Whether the run was begun here, finished or not."""
        return (self.folder(run) / _JOURNAL).exists() or self.is_finished(run)

    def is_finished(self, run: bytes) -> bool:
        """Whether the run is over."""
        return (self.folder(run) / _FINISHED).exists()

    def unfinished(self) -> list[bytes]:
        """Runs that a restart should resume, in the order of their ids."""
        return [run for run in self.all() if not self.is_finished(run)]

    def all(self) -> list[bytes]:
        """Every run that was begun here and not removed, in the order of their ids."""
        return sorted(run for run in self._folders() if self.has(run))

    def _folders(self) -> Iterator[bytes]:
        for folder in self._runs.iterdir():
            if len(folder.name) == 2 * RUN_ID_BYTES:
                yield bytes.fromhex(folder.name)

    def save(self, run: bytes, name: str, data: bytes) -> None:
        """Keep something about the run: on the disk, whole, when this returns."""
        write_file(self.folder(run) / name, data)

    def load(self, run: bytes, name: str) -> bytes | None:
        """Load the bytes stored under this name; None if there are none."""
        try:
            return (self.folder(run) / name).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, run: bytes, name: str) -> None:
        """Take away what was kept only for the while."""
        (self.folder(run) / name).unlink(missing_ok=True)

    def read_description(self, run: bytes) -> bytes:
        """Read what a run began with, also while a service works on it."""
        opening = Journal.read_opening(self.folder(run) / _JOURNAL)
        try:
            return msgspec.msgpack.decode(opening, type=_Opening).description
        except msgspec.DecodeError:
            raise DamagedJournalError(f"the journal of run {run.hex()} is damaged") from None

    def is_in_use(self, run: bytes) -> bool:
        """Whether a service works on the run now."""
        return not self.is_finished(run) and Journal.is_locked(self.folder(run) / _JOURNAL)

    def empty(self, run: bytes, keep: Collection[str] = ()) -> None:
        """Finish a run and delete all its files, its result among them; its id stays taken."""
        folder = self.folder(run)
        write_file(folder / _FINISHED, b"")
        for path in folder.iterdir():
            if path.name in (_FINISHED, *keep):
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def result(self, run: bytes) -> bytes | None:
        """Read the result of the run; None if it has none or is not finished."""
        return self.load(run, _FINISHED) or None

    def finish(
        self,
        run: bytes,
        result: bytes = b"",
        *,
        about: Mapping[str, bytes] = _NOTHING,
        keep_journal: bool = False,
    ) -> None:
        """Finish the run, once all roles have its results; may be repeated.

        Mark and result are one file, so that neither exists without the other. Other files `about`
        the run are written before it.
        """
        folder = self.folder(run)
        if result or not self.is_finished(run):
            write_files(folder, {**about, _FINISHED: result})
        if not keep_journal:
            _remove(folder / _JOURNAL)


def _remove(path: Path) -> None:
    """Remove a file; its space is freed during other work.

    That took ext4 1 to 10 ms for a journal of 1 MB. Its name is gone at once, and should the
    process end before, the system does the rest.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    path.unlink(missing_ok=True)
    _thread.start_new_thread(os.close, (file,))  # unlike `Thread`, it is not waited for to start


def write_file(path: Path, data: bytes) -> None:
    """A file that only its owner can read, replaced as a whole or not at all."""
    write_files(path.parent, {path.name: data})


def write_files(folder: Path, data_of: Mapping[str, bytes]) -> None:
    """Files that only their owner can read, each replaced as a whole or not at all, in order."""
    path = folder
    try:
        for name, data in data_of.items():
            path = folder / name
            _write_draft(_draft_of(path), data)
        for name in data_of:
            path = folder / name
            _draft_of(path).replace(path)
        sync_folder(folder)
    except OSError as error:
        raise StorageError.of_write(path, error) from error


def _draft_of(path: Path) -> Path:
    return path.with_name(path.name + ".draft")


def _write_draft(draft: Path, data: bytes) -> None:
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as stream:
        if data:  # of an empty file there is only the name to wait for
            stream.write(data)
            stream.flush()
            os.fsync(file)


def _make_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise StorageError.of_write(folder, error) from error
