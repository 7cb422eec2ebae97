"""An append-only file of records that survives being cut off at any byte.

Written records survive a crash of the process; records that were also synced (`append`, or `write`
and `sync_soon`, and then `wait`) survive a loss of power. A file that ends inside a record is taken
back to the last whole one when it is opened; any other damage is refused. One process at a time has
a journal open. This module does not interpret records.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self

from fedforest.errors import DamagedJournalError, StorageError
from fedforest.runtime.recovery.disk import Syncer, is_blank, read_all, sync_folder, write_all

# The file:   magic (8 bytes)  version (u32)  |  record 0, the opening  |  record 1  |  ...
# A record:   length (u64)  guard (4 bytes)  checksum (16 bytes)  |  payload
# The guard is a checksum of the length alone: without it a damaged length would look like a file
# that ends too early. Each checksum covers the one before it: no record can be missing or moved.
_MAGIC = b"FFOREST\x1a"
_VERSION = 1
_FILE_HEAD = Struct("<8sI")
_LENGTH = Struct("<Q")
_GUARD_BYTES = 4
_CHECKSUM_BYTES = 16
_HEAD_BYTES = _LENGTH.size + _GUARD_BYTES + _CHECKSUM_BYTES


class _Mark(NamedTuple):
    """A place between two records."""

    offset: int
    number: int  # of the record that follows
    chain: bytes  # the checksum before it


_START = _Mark(_FILE_HEAD.size, 0, b"")


class Journal:
    """Records in the order they were appended, behind an opening that says what they are about."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file
        self._end = self._before_last = _START
        self._is_usable = True
        self._syncer: Syncer | None = None
        self._is_syncing = False

    @classmethod
    def create(cls, path: Path, opening: bytes) -> Self:
        """A new journal, whole or not there at all; refused where there is one already."""
        if path.exists():
            raise StorageError(f"there is a journal at {path} already; resume it, or remove it")
        draft = path.with_name(path.name + ".draft")
        try:
            draft.unlink(missing_ok=True)  # left over from a crash while it was created
            journal = cls(draft, os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise _cannot("create", path, error) from error
        try:
            journal._lock()
            write_all(journal._file, [memoryview(_FILE_HEAD.pack(_MAGIC, _VERSION))], 0)
            journal.append(opening)
            os.link(draft, path)  # unlike renaming, it never replaces a journal
            draft.unlink()
            sync_folder(path.parent)
        except BaseException as error:
            journal.close()
            if isinstance(error, OSError):
                raise _cannot("create", path, error) from error
            raise
        journal.path = path
        return journal

    @classmethod
    def open(cls, path: Path) -> Self:
        """The journal at this path, without what a crash left of an unfinished record."""
        try:
            journal = cls(path, os.open(path, os.O_RDWR))
        except OSError as error:
            raise _cannot("open", path, error) from error
        try:
            journal._lock()
            journal._recover()
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def read_opening(cls, path: Path) -> bytes:
        """Read the first record of the journal at this path, which may be open elsewhere."""
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise _cannot("open", path, error) from error
        try:
            found = next(cls(path, file)._walk(os.fstat(file).st_size), None)
        finally:
            os.close(file)
        if found is None:
            raise DamagedJournalError(f"the journal {path} has no opening; begin the run anew")
        return found[1]

    @staticmethod
    def is_locked(path: Path) -> bool:
        """Whether the journal at this path is open anywhere."""
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def close(self) -> None:
        """Let others open it."""
        if self._syncer is not None:
            if self._is_syncing:
                self._syncer.wait()
            self._syncer.rest()
        if self._file >= 0:
            os.close(self._file)
        self._file, self._is_usable = -1, False
        self._syncer, self._is_syncing = None, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def opening(self) -> bytes:
        """Read the first record, with which the journal was created."""
        return next(self._walk(self._end.offset))[1]

    @property
    def n_bytes(self) -> int:
        """Bytes of all records so far, in the file."""
        return self._end.offset

    @property
    def n_records(self) -> int:
        """Records behind the opening."""
        self.wait()
        return self._end.number - 1

    def records(self) -> Iterator[bytes]:
        """All records that are there now, behind the opening; one at a time is in memory."""
        self.wait()
        walk = self._walk(self._end.offset)
        next(walk)
        for _, payload in walk:
            yield payload

    def append(self, payload: bytes | memoryview) -> None:
        """Add a record; when this returns it is on the disk."""
        self.write(payload)
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise self._did_not_sync(error) from error

    def write(self, payload: bytes | memoryview) -> None:
        """Add a record, which the system brings to the disk at some time.

        Raises `StorageError` where the disk is full. Then the record is not there, all earlier ones
        are, and once there is room it can be written again. A sync in progress need not be waited
        for.
        """
        self._require_usable()
        head, after = _frame(self._end, payload)
        self._is_usable = False  # until either the record is there or nothing of it is
        try:
            write_all(self._file, [memoryview(head), memoryview(payload)], self._end.offset)
        except OSError as error:
            with suppress(OSError):  # else it stays unusable, and is cut when it is opened anew
                os.ftruncate(self._file, self._end.offset)
                self._is_usable = True
            raise StorageError.of_write(f"the journal {self.path}", error) from error
        self._before_last, self._end, self._is_usable = self._end, after, True

    def sync_soon(self) -> None:
        """Begin to bring all that was written to the disk, beside what the caller does next."""
        self.wait()
        if self._syncer is None:
            self._syncer = Syncer.wake()
        self._syncer.begin(self._file)
        self._is_syncing = True

    def wait(self) -> None:
        """Wait until what was begun is on the disk; raises `StorageError` if it fails."""
        if self._is_syncing and self._syncer is not None:
            self._is_syncing = False
            error = self._syncer.wait()
            if error is not None:
                raise self._did_not_sync(error) from error
        self._require_usable()

    def take_back(self) -> None:
        """Remove the last record, once; after a loss of power it may be there again."""
        self.wait()
        if self._before_last in (_START, self._end):
            raise StorageError(f"the journal {self.path} has no last record to take back")
        try:
            os.ftruncate(self._file, self._before_last.offset)
        except OSError as error:
            self._is_usable = False
            raise _cannot("shorten", self.path, error) from error
        self._end = self._before_last

    def _did_not_sync(self, error: OSError) -> StorageError:
        self._is_usable = False  # what the disk holds now is found out by opening it anew
        return StorageError.of_write(f"the journal {self.path}", error)

    def _require_usable(self) -> None:
        if not self._is_usable:
            raise StorageError(f"the journal {self.path} is closed, or failed before; open it anew")

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageError(
                f"the journal {self.path} is in use by another process; a run is carried on by one "
                "process at a time"
            ) from error

    def _recover(self) -> None:
        """Check every record and cut off what follows the last whole one."""
        head = os.pread(self._file, _FILE_HEAD.size, 0)
        if len(head) < _FILE_HEAD.size or not head.startswith(_MAGIC):
            raise DamagedJournalError(f"{self.path} is not a journal; begin the run anew")
        version = _FILE_HEAD.unpack(head)[1]
        if version != _VERSION:
            raise StorageError(
                f"the journal {self.path} has version {version}, this release reads version "
                f"{_VERSION}; resume the run with the release that began it"
            )
        size = os.fstat(self._file).st_size
        before, end = _START, _START
        for after, _ in self._walk(size):
            before, end = end, after
        if end == _START:
            raise DamagedJournalError(f"the journal {self.path} has no opening; begin the run anew")
        if end.offset < size:
            os.ftruncate(self._file, end.offset)
            os.fdatasync(self._file)
        self._before_last, self._end = before, end

    def _walk(self, end: int) -> Iterator[tuple[_Mark, bytes]]:
        """Iterate over whole records up to an offset, each with its mark."""
        mark = _START
        while mark.offset < end:
            length = self._read_length(mark, end)
            if length is None or mark.offset + _HEAD_BYTES + length > end:
                return  # cut off in the middle
            payload = read_all(self._file, mark.offset + _HEAD_BYTES, length)
            head, after = _frame(mark, payload)
            if os.pread(self._file, _HEAD_BYTES, mark.offset) != head:
                raise self._damage(mark)
            mark = after
            yield mark, payload

    def _read_length(self, mark: _Mark, end: int) -> int | None:
        """The length of a record, None where the file was cut off before it was written."""
        head = os.pread(self._file, _LENGTH.size + _GUARD_BYTES, mark.offset)
        if mark.offset + len(head) > end or len(head) < _LENGTH.size + _GUARD_BYTES:
            return None
        length: int = _LENGTH.unpack_from(head)[0]
        if head[_LENGTH.size :] == _guard(mark, length):
            return length
        if is_blank(self._file, mark.offset, end):
            return None  # after a loss of power the file can be longer than what was written
        raise self._damage(mark)

    def _damage(self, mark: _Mark) -> DamagedJournalError:
        return DamagedJournalError(
            f"record {mark.number} of the journal {self.path}, at byte {mark.offset}, is damaged; "
            "begin the run anew (an older copy of the file would not fit what others know)"
        )


def _cannot(do: str, path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot {do} the journal {path}: {error.strerror}")


def _frame(mark: _Mark, payload: bytes | memoryview) -> tuple[bytes, _Mark]:
    """Return the header of a payload at this place, and the place behind it."""
    length = len(payload)
    checksum = blake2b(mark.chain, digest_size=_CHECKSUM_BYTES, person=b"journal record")
    checksum.update(_place(mark, length))
    checksum.update(payload)
    chain = checksum.digest()
    head = _LENGTH.pack(length) + _guard(mark, length) + chain
    return head, _Mark(mark.offset + len(head) + length, mark.number + 1, chain)


def _guard(mark: _Mark, length: int) -> bytes:
    place = mark.chain + _place(mark, length)
    return blake2b(place, digest_size=_GUARD_BYTES, person=b"journal length").digest()


def _place(mark: _Mark, length: int) -> bytes:
    return _LENGTH.pack(mark.number) + _LENGTH.pack(length)
