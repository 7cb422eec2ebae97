"""Copies of a role's folder: one archive that only its owner can read, with every file's digest.

A copy may be made while the service runs: files are written whole or not at all, and databases are
copied by SQLite itself. Journals of runs under way are left out: a restored run could neither go
on (its parties are ahead of it) nor begin anew (masks would be used twice), so it ends.
"""

import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from fedforest.errors import ConfigurationError, StorageError
from fedforest.runtime.recovery.disk import sync_folder
from fedforest.runtime.recovery.run_store import RunStore, write_file

RESTORED = "restored.json"  # in a folder that was restored, until its owner has decided
SETTLED = "restored.settled.json"  # and afterwards
Kind = Literal["coordinator", "party"]

_MANIFEST = "manifest.json"
# what a process makes anew, and what is of this moment only
_LEFT_OUT = {"running.lock", "membership.lock", "presence.json", "copies", RESTORED, "log.txt"}
_JOURNAL, _FINISHED = "journal", "finished"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an archive holds. Times are in seconds since 1970."""

    kind: Kind
    copied_at: float
    release: str
    files: dict[str, str]  # by path, SHA-256
    descriptions: dict[str, bytes]  # of runs under way, as their journals begin


class Restored(msgspec.Struct, frozen=True):
    """What a restored folder knows of its past."""

    copied_at: float
    restored_at: float
    runs: list[str]  # that were under way

    @property
    def moment(self) -> str:
        """When the copy was made, to the minute."""
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.copied_at))


def read_restored(home: Path) -> Restored | None:
    """Read what a folder says of being restored; None if its owner has decided, or it was not."""
    return _read(home / RESTORED)


def read_past(home: Path) -> Restored | None:
    """Read the same, also after its owner has decided."""
    return _read(home / RESTORED) or _read(home / SETTLED)


def settle(home: Path) -> None:
    """Note that the owner of a restored folder has decided."""
    (home / RESTORED).replace(home / SETTLED)
    sync_folder(home)


def _read(path: Path) -> Restored | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Restored)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        raise StorageError(f"{path} cannot be read; restore the folder again") from None


def make_backup(
    home: Path, archive: Path, kind: Kind, release: str, left_out: Collection[Path] = ()
) -> Manifest:
    """Copy a folder, but for some files, into a new archive; a broken-off one leaves nothing."""
    if archive.exists():
        raise ConfigurationError(f"{archive} is there already; name a new file")
    store, draft = RunStore(home), archive.with_name(archive.name + ".draft")
    runs = store.unfinished()
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as tar:
                copied_at = time.time()
                names = sorted(name for name in _list_files(home) if home / name not in left_out)
                digests = {name: _add(tar, home, name) for name in names}
                found = {name: digest for name, digest in digests.items() if digest}
                told = {run.hex(): store.read_description(run) for run in runs}
                manifest = Manifest(kind, copied_at, release, found, told)
                _add_bytes(tar, _MANIFEST, msgspec.json.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(archive)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StorageError.of_write(archive, error) from error
    return manifest


def restore_backup(archive: Path, home: Path, kind: Kind) -> tuple[Manifest, Restored]:
    """Make a folder out of an archive; the folder must be new."""
    if home.exists() and any(home.iterdir()):
        raise ConfigurationError(f"{home} is not empty; restore into a new folder")
    draft = home.with_name(home.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(draft, filter="data")
        manifest = msgspec.json.decode((draft / _MANIFEST).read_bytes(), type=Manifest)
        _check(draft, manifest, kind)
    except (OSError, EOFError, tarfile.TarError, msgspec.DecodeError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise ConfigurationError(f"{archive} is no whole copy of a folder: {error}") from None
    except ConfigurationError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    (draft / _MANIFEST).unlink()
    for path in (draft, *draft.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    store = RunStore(draft)
    for run in manifest.descriptions:
        store.folder(bytes.fromhex(run)).mkdir(mode=0o700, exist_ok=True)
        store.empty(bytes.fromhex(run), keep=("access.json",))
    restored = Restored(manifest.copied_at, time.time(), sorted(manifest.descriptions))
    write_file(draft / RESTORED, msgspec.json.encode(restored))
    if home.exists():
        home.rmdir()
    draft.replace(home)
    sync_folder(home.parent)
    return manifest, restored


def _check(folder: Path, manifest: Manifest, kind: Kind) -> None:
    if manifest.kind != kind:
        raise ConfigurationError(f"the copy is of a {manifest.kind}, not of a {kind}")
    for name, digest in manifest.files.items():
        if _digest((folder / name).read_bytes()) != digest:
            raise ConfigurationError(f"{name} in the copy is damaged; take another one")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    if there != {*manifest.files, _MANIFEST}:
        raise ConfigurationError("the copy holds files that its list does not name; take another")


def _list_files(home: Path) -> Iterator[str]:
    for path in home.rglob("*"):
        name = path.relative_to(home)
        is_left_out = not _LEFT_OUT.isdisjoint(name.parts) or path.suffix == ".draft"
        is_journal = path.name.endswith(("-wal", "-shm", "-journal"))  # of a database
        is_of_run = path.name == _JOURNAL and not (path.parent / _FINISHED).exists()
        if path.is_file() and not (is_left_out or is_journal or is_of_run):
            yield str(name)


def _add(tar: tarfile.TarFile, home: Path, name: str) -> str:
    """Add a file as it is now, and return its digest; empty if it is gone."""
    try:
        data = _dump(home / name) if name.endswith(".sqlite") else (home / name).read_bytes()
    except FileNotFoundError:
        return ""
    _add_bytes(tar, name, data)
    return _digest(data)


def _dump(path: Path) -> bytes:
    """Copy a database that others may be writing."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        return copy.serialize()


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o600
    tar.addfile(entry, io.BytesIO(data))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
