"""A party's own record of everything that left it: append-only, hash-chained, for auditors.

    <home>/ledger/000001.jsonl   one record a line, each with the hash of all before it
                 /000002.jsonl   goes on where the first was full
                 /head           number and hash of the last record

A record is written before the message leaves, so what may have left is there. Records are not
waited for until a run ends: a crash of the process loses none, a loss of power may lose the last
ones of a run, which are then recovered from the run's journal (`RunEgress`).
"""

import fcntl
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import msgspec

from fedforest.errors import LocalProtocolError, StorageError
from fedforest.protocol.asking import Message
from fedforest.runtime.recovery.disk import sync_folder

MAX_FILE_BYTES = 16 * 2**20
_HEAD = "head"
_HASH_KEY = b',"hash":"'
_TAIL_BYTES = len(_HASH_KEY) + 64 + len(b'"}')
_ENCODER = msgspec.json.Encoder()

Kind = Literal["begun", "sent", "resent", "recovered", "refused", "torn", "lost"]


class LedgerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that left the party, or that happened to the ledger."""

    number: int
    time: str
    kind: Kind
    run: str = ""  # of a training or a prediction
    sequence: int = 0  # of the request that was answered
    message: str = ""
    bytes: int = 0
    reveals: str = ""
    party: str = ""  # in the first record: whose ledger it is
    part_of: str = ""  # where a part of a run begins: the run


class Departure(NamedTuple):
    """A message that is about to leave."""

    kind: Kind
    message: str
    reveals: str
    n_bytes: int
    run: str = ""
    sequence: int = 0
    part_of: str = ""  # the run that this one is a part of

    @classmethod
    def of_reply(
        cls, kind: Kind, reply: type[Message], n_bytes: int, run: bytes = b"", sequence: int = 0
    ) -> "Departure":
        """A reply, by what its type declares."""
        return cls(kind, reply.__name__, reply.reveals, n_bytes, run.hex(), sequence)


class Ledger(Protocol):
    """The interface for recording departures."""

    def record(self, departure: Departure) -> None:
        """Note it; when this returns it may leave."""

    def sync(self) -> None:
        """Return when everything noted is on the disk."""

    def last_sequence(self, run: str) -> int:
        """The last request of a run whose answer is noted."""


class NoLedger:
    """Notes nothing: for services that run inside a test or an estimator."""

    def record(self, departure: Departure) -> None: ...

    def sync(self) -> None: ...

    def last_sequence(self, run: str) -> int:
        """Everything is taken for noted."""
        del run
        return 2**62


NO_LEDGER = NoLedger()


class Place(NamedTuple):
    """The end of a ledger."""

    number: int  # of the last record; -1 before the first
    hash: str


BEFORE_ALL = Place(-1, sha256(b"fedforest egress ledger").hexdigest())


class EgressLedger:
    """The ledger of one party, open for writing by one process at a time."""

    def __init__(self, home: Path, party: str, *, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self._folder = home / "ledger"
        self._max_file_bytes = max_file_bytes
        self._lock = threading.Lock()
        self._end = BEFORE_ALL
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._head = os.open(self._folder / _HEAD, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._head, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._head)
            raise StorageError(f"the ledger {self._folder} is in use by another process") from None
        except OSError as error:
            raise self._cannot("open", error) from error
        self._open_last(party)

    @staticmethod
    def is_in_use(home: Path) -> bool:
        """Whether a process has the ledger of this folder open for writing."""
        try:
            with (home / "ledger" / _HEAD).open("rb") as head:
                fcntl.flock(head, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Bring everything to the disk and let others open it."""
        self.sync()
        os.close(self._file)
        os.close(self._head)

    def __enter__(self) -> "EgressLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def end(self) -> Place:
        """Return the last record, whose copy elsewhere proves that earlier ones are unchanged."""
        return self._end

    def record(self, departure: Departure) -> None:
        """Note what is about to leave; raises `StorageError` where that cannot be."""
        kind, message, reveals, n_bytes, run, sequence, part_of = departure
        if not reveals:
            raise LocalProtocolError(f"{message} may not leave: it declares not what it reveals")
        self._append(
            lambda number, now: LedgerRecord(
                number, now, kind, run, sequence, message, n_bytes, reveals, part_of=part_of
            )
        )

    def sync(self) -> None:
        """Return when everything noted is on the disk."""
        with self._lock:
            try:
                os.fsync(self._file)
                os.fsync(self._head)
            except OSError as error:
                raise self._cannot("bring to the disk", error) from error

    def last_sequence(self, run: str) -> int:
        """The last request of a run whose answer is noted, 0 where none is."""
        marker = f'"run":"{run}"'.encode()
        for path in reversed(ledger_files(self._folder)):
            found = [
                msgspec.json.decode(line, type=LedgerRecord).sequence
                for line in path.read_bytes().splitlines()
                if marker in line
            ]
            if found:
                return max(found)
        return 0

    def _append(self, make: Callable[[int, str], LedgerRecord]) -> None:
        with self._lock:
            number = self._end.number + 1
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line, end = seal(self._end, _ENCODER.encode(make(number, now)))
            if self._size + len(line) > self._max_file_bytes and self._size > 0:
                self._rotate()
            try:
                if os.write(self._file, line) != len(line):
                    os.ftruncate(self._file, self._size)
                    raise OSError(0, "the disk is full")
                os.pwrite(self._head, describe_place(end), 0)
            except OSError as error:
                raise self._cannot("write to", error) from error
            self._size += len(line)
            self._end = end

    def _rotate(self) -> None:
        """Go on in another file; the full one is on the disk before."""
        try:
            os.fsync(self._file)
            os.close(self._file)
            self._open_file(self._n_files + 1)
            sync_folder(self._folder)
        except OSError as error:
            raise self._cannot("go on with", error) from error

    def _open_file(self, number: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._file = os.open(self._folder / f"{number:06d}.jsonl", flags, 0o600)
        self._n_files = number
        self._size = os.fstat(self._file).st_size

    def _open_last(self, party: str) -> None:
        """Go on behind the last whole record, and note what a crash did."""
        files = ledger_files(self._folder)
        try:
            self._open_file(max(1, len(files)))
        except OSError as error:
            raise self._cannot("open", error) from error
        self._end, n_torn = self._find_end(files)
        head = read_place(os.pread(self._head, 200, 0))
        if self._end.number < 0 and head is None:
            self._append(lambda number, now: LedgerRecord(number, now, "begun", party=party))
        if n_torn:
            what = f"{n_torn} bytes of a record that a crash left unfinished were cut off"
            self._append(lambda number, now: LedgerRecord(number, now, "torn", reveals=what))
        if head is not None and head.number > self._end.number:
            what = f"records up to {head.number} were here: a loss of power, or somebody took them"
            self._append(lambda number, now: LedgerRecord(number, now, "lost", reveals=what))

    def _find_end(self, files: list[Path]) -> tuple[Place, int]:
        """The last whole record, and how many bytes behind it were cut off."""
        content = b"" if not files else files[-1].read_bytes()
        whole = content.rfind(b"\n") + 1
        n_torn = len(content) - whole
        if n_torn:
            os.ftruncate(self._file, whole)
            self._size = whole
        for path in reversed(files):
            lines = path.read_bytes().splitlines()
            if lines:
                body, stored = split_line(lines[-1])
                number = msgspec.json.decode(body, type=LedgerRecord).number
                return Place(number, stored), n_torn
        return BEFORE_ALL, n_torn

    def _cannot(self, do: str, error: OSError) -> StorageError:
        full = StorageError.of_write(f"the ledger {self._folder}", error)
        if full.code == "storage.full":
            return full
        return StorageError(f"cannot {do} the ledger {self._folder}: {error.strerror}")


class RunEgress:
    """Notes the replies of one run; a restart notes replies that were sent and not noted."""

    def __init__(self, ledger: Ledger, run: bytes) -> None:
        self._ledger = ledger
        self._run = run
        self._last: int | None = None

    def note(self, kind: Kind, sequence: int, reply: type[Message], n_bytes: int) -> None:
        """The answer to a request is about to leave, or, recovered, may have left."""
        if kind == "recovered":
            if self._last is None:
                self._last = self._ledger.last_sequence(self._run.hex())
            if sequence <= self._last:
                return
        self._ledger.record(Departure.of_reply(kind, reply, n_bytes, self._run, sequence))
        self._last = max(sequence, self._last or 0)


def seal(before: Place, body: bytes) -> tuple[bytes, Place]:
    """The line of a record behind a place, and the place behind it."""
    digest = sha256(bytes.fromhex(before.hash) + body).hexdigest()
    line = b"".join((body[:-1], _HASH_KEY, digest.encode(), b'"}\n'))
    return line, Place(before.number + 1, digest)


def split_line(line: bytes) -> tuple[bytes, str]:
    """A record without its hash, byte for byte as it was sealed, and the hash."""
    tail = line[-_TAIL_BYTES:]
    if not tail.startswith(_HASH_KEY) or not line.endswith(b'"}'):
        raise StorageError("a line of a ledger is no record")
    return line[:-_TAIL_BYTES] + b"}", tail[len(_HASH_KEY) : -2].decode(errors="replace")


def ledger_files(folder: Path) -> list[Path]:
    """The files of a ledger, oldest first."""
    return sorted(folder.glob("[0-9]*.jsonl"))


def describe_place(place: Place) -> bytes:
    """A place as `head` holds it, always as long."""
    return f"{place.number:020d} {place.hash}\n".encode()


def read_place(data: bytes) -> Place | None:
    """A place again, None where there is none."""
    number, _, digest = data.decode(errors="replace").strip().partition(" ")
    return Place(int(number), digest) if number.isdecimal() and len(digest) == 64 else None
