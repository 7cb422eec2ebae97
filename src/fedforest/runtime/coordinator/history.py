"""The history of a coordinator's runs in SQLite: their users, states, figures and costs.

    runs        one row each: request, user, state, times, result in figures
    exchanges   one row for each exchange and party: bytes and seconds, never content
    events      changes of state, and the parties that a run waited for

The files of runs decide which runs are resumed; the history is only a record, also of runs that
ended long ago. Exchanges are written several at a time, so that a run does not wait for the disk at
each. A resumed run reports the exchanges again that a killed coordinator had not written.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError, StorageError
from fedforest.runtime.messages.orders import AnyRun, RunFilter
from fedforest.runtime.messages.results import (
    Exchanged,
    LoggedEvent,
    RunDetails,
    RunState,
    Told,
    Waiting,
)
from fedforest.runtime.trainings.base import RunFigures
from fedforest.runtime.trainings.registry import training_of

ENDED = ("finished", "cancelled")
_ALL = RunFilter()
_USES_DATA = "EXISTS (SELECT 1 FROM json_each(description, '$.data') WHERE value = ?)"
_WAIT_SECONDS = 30.0  # for another connection that writes
_LATER_SECONDS = 0.5  # how long exchanges wait to be written together
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    protocol TEXT NOT NULL,
    description TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL,
    started REAL,
    ended REAL,
    result TEXT
);
CREATE TABLE IF NOT EXISTS exchanges (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    party TEXT NOT NULL,
    at REAL NOT NULL,
    request TEXT NOT NULL,
    first_tree INTEGER,
    last_tree INTEGER,
    level INTEGER,
    open_nodes INTEGER,
    bytes_to INTEGER NOT NULL,
    bytes_from INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (run, number, party)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    run TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_run ON events (run);
PRAGMA user_version = 1;
"""
_SUMMARY = """
SELECT runs.run, state, reason, name, user, protocol, created, ended,
       COUNT(DISTINCT exchanges.number),
       COALESCE(SUM(bytes_to + bytes_from), 0)
FROM runs LEFT JOIN exchanges ON runs.run = exchanges.run
{where} GROUP BY runs.run ORDER BY created, runs.run
"""


_MOST_VALUES = 500  # of one query


class History:
    """All runs that users ever requested at a coordinator; safe to use from several threads."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[tuple[Any, ...]] = []  # rows of exchanges
        self._written_at = 0.0
        with _complaining(path):
            self._database = _open(path)

    def close(self) -> None:
        """Write the exchanges that wait, and close the file."""
        with self._lock, _complaining(self._path):
            self._write_waiting()
            self._database.close()

    def begin(self, run: bytes, order: AnyRun, user: str) -> None:
        """Record a new run and its request; leave out a seed that the coordinator drew."""
        protocol, name = training_of(order).protocol, getattr(order, "name", "")
        description = msgspec.json.encode(order).decode()
        row = (run.hex(), name, user, protocol, description, "queued", self._clock())
        with self._writing(run, "ordered", f"by {user}") as database:
            database.execute(
                "INSERT OR IGNORE INTO runs"
                " (run, name, user, protocol, description, state, created)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def note_state(self, run: bytes, state: str, reason: str = "") -> None:
        """Record that the run is now queued again, running, paused, failed or cancelled."""
        now = self._clock()
        with self._writing(run, state, reason) as database:
            database.execute(
                "UPDATE runs SET state = ?, reason = ?,"
                " started = CASE WHEN ? = 'running' THEN COALESCE(started, ?) ELSE started END,"
                " ended = CASE WHEN ? = 'cancelled' THEN ? ELSE NULL END WHERE run = ?",
                (state, reason, state, now, state, now, run.hex()),
            )

    def note_result(self, run: bytes, figures: RunFigures) -> None:
        """Record that the run finished, and its result in figures."""
        told = f"{figures.n_rows:,} rows" if figures.model is None else f"model {figures.model}"
        with self._writing(run, "finished", told) as database:
            database.execute(
                "UPDATE runs SET state = 'finished', reason = '', ended = ?, result = ?"
                " WHERE run = ?",
                (self._clock(), msgspec.json.encode(figures).decode(), run.hex()),
            )

    def note_event(self, run: bytes, number: int, event: Told) -> None:
        """Record an event of a run; an exchange with the same number is recorded once."""
        if isinstance(event, Waiting):
            with self._writing(run, "waiting", "for " + ", ".join(map(repr, event.parties))):
                pass  # `_writing` records the event; nothing else changes
        elif isinstance(event, Exchanged):
            now = self._clock()
            with self._lock:
                self._waiting += _list_rows(run, number, now, event)
            if not 0.0 <= now - self._written_at < _LATER_SECONDS:
                self._written_at = now
                with self._guarded():
                    pass  # `_guarded` writes the exchanges that wait

    def has(self, run: bytes) -> bool:
        """Tell whether the history has this run."""
        return bool(self._read("SELECT 1 FROM runs WHERE run = ?", run.hex()))

    def protocol_of(self, run: bytes) -> str:
        """Return the run's protocol; raises `ConfigurationError` if the run is unknown."""
        found = self._read("SELECT protocol FROM runs WHERE run = ?", run.hex())
        if not found:
            raise _unknown(run)
        protocol: str = found[0][0]
        return protocol

    def not_ended(self) -> list[bytes]:
        """List the runs whose last recorded state is neither finished nor cancelled."""
        rows = self._read("SELECT run FROM runs WHERE state NOT IN (?, ?)", *ENDED)
        return [bytes.fromhex(row[0]) for row in rows]

    def select(self, which: RunFilter = _ALL) -> list[RunState]:
        """List runs in any state, the oldest first."""
        rules, values = _where(which)
        where = f"WHERE {' AND '.join(rules)}" if rules else ""
        return [RunState(*row) for row in self._read(_SUMMARY.format(where=where), *values)]

    def newest(self, which: RunFilter = _ALL) -> list[tuple[str, str]]:
        """List runs in any state with that state, the newest first; exchanges are not counted."""
        rules, values = _where(which)
        where = f"WHERE {' AND '.join(rules)}" if rules else ""
        query = f"SELECT run, state FROM runs {where} ORDER BY created DESC, run DESC"
        return [(run, state) for run, state in self._read(query, *values)]

    def summarise(self, runs: Sequence[str]) -> list[RunState]:
        """Return what `select` says of these runs, the oldest first."""
        found: list[RunState] = []
        for first in range(0, len(runs), _MOST_VALUES):
            some = runs[first : first + _MOST_VALUES]
            where = f"WHERE runs.run IN ({', '.join('?' * len(some))})"
            found += [RunState(*row) for row in self._read(_SUMMARY.format(where=where), *some)]
        return sorted(found, key=lambda state: (state.created, state.run))

    def remove(self, run: bytes) -> None:
        """Delete all that is recorded of a run."""
        with self._guarded() as database:
            database.execute("BEGIN")
            for table in ("exchanges", "events", "runs"):
                database.execute(f"DELETE FROM {table} WHERE run = ?", (run.hex(),))
            database.execute("COMMIT")

    def show(self, run: bytes) -> RunDetails:
        """Return everything about a run; raises `ConfigurationError` if it is unknown."""
        found = self._read("SELECT description, started, result FROM runs WHERE run = ?", run.hex())
        if not found:
            raise _unknown(run)
        description, started, result = found[0]
        summary = self._read(_SUMMARY.format(where="WHERE runs.run = ?"), run.hex())[0]
        figures = None if result is None else msgspec.json.decode(result, type=RunFigures)
        traffic = self._read(
            "SELECT party, SUM(bytes_to), SUM(bytes_from) FROM exchanges WHERE run = ?"
            " GROUP BY party",
            run.hex(),
        )
        return RunDetails(
            state=RunState(*summary),
            order=msgspec.json.decode(description),
            started=started,
            bytes_to={party: n_bytes for party, n_bytes, _ in traffic},
            bytes_from={party: n_bytes for party, _, n_bytes in traffic},
            **({} if figures is None else msgspec.structs.asdict(figures)),
        )

    def events(self, run: bytes) -> list[LoggedEvent]:
        """List the events and exchanges of a run by time."""
        noted = self._read("SELECT at, kind, text FROM events WHERE run = ?", run.hex())
        exchanges = self._read(
            "SELECT at, 'exchange', request, number, party, first_tree, last_tree, level,"
            " open_nodes, bytes_to, bytes_from, seconds FROM exchanges WHERE run = ?",
            run.hex(),
        )
        events = [LoggedEvent(*row) for row in (*noted, *exchanges)]
        return sorted(events, key=lambda event: (event.at, event.number, event.party))

    @contextmanager
    def _writing(self, run: bytes, kind: str, text: str) -> Iterator[sqlite3.Connection]:
        """Commit the caller's changes together with the event that describes them."""
        with self._guarded() as database:
            database.execute("BEGIN")
            yield database
            event = (run.hex(), self._clock(), kind, text)
            database.execute("INSERT INTO events VALUES (?, ?, ?, ?)", event)
            database.execute("COMMIT")

    def _read(self, query: str, *values: object) -> list[Any]:
        with self._guarded() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock around the database; roll back if the caller fails."""
        with self._lock, _complaining(self._path):
            try:
                self._write_waiting()
                yield self._database
            finally:
                if self._database.in_transaction:
                    self._database.rollback()

    def _write_waiting(self) -> None:
        if self._waiting:
            self._database.execute("BEGIN")  # one commit for all
            self._database.executemany(
                "INSERT OR IGNORE INTO exchanges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                self._waiting,
            )
            self._database.execute("COMMIT")
            self._waiting.clear()


def _where(which: RunFilter) -> tuple[list[str], list[object]]:
    """Return the conditions of a filter but for states, which change while a run is under way."""
    user = "(user = ? OR user LIKE '%/' || ?)"
    conditions: list[tuple[str, object, int]] = [
        (user, which.user or None, 2),
        ("name GLOB ?", which.name or None, 1),
        (_USES_DATA, which.data or None, 1),
        ("created < ?", which.before, 1),
        ("created >= ?", which.after, 1),
    ]
    chosen = [each for each in conditions if each[1] is not None]
    values = [value for _, value, n_times in chosen for _ in range(n_times)]
    return [rule for rule, _, _ in chosen], values


def _unknown(run: bytes) -> ConfigurationError:
    return ConfigurationError(f"there is no run {run.hex()} in the coordinator's history")


def _open(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    database = sqlite3.connect(
        path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    database.execute("PRAGMA journal_mode = WAL")  # readers do not stop a run
    database.execute("PRAGMA synchronous = NORMAL")
    database.executescript(_SCHEMA)
    return database


@contextmanager
def _complaining(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the file system as `StorageError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StorageError(
            f"the history {path} cannot be used ({error}); make room for it, or move it away: runs "
            "do not depend on it"
        ) from error


def _list_rows(run: bytes, number: int, at: float, event: Exchanged) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one exchange, one for each party."""
    note = event.note
    first, last = note.get("trees", (None, None))
    place = (first, last, note.get("level"), note.get("open_nodes"))
    for party, n_bytes in event.bytes_to.items():
        sent = event.bytes_from.get(party, 0)
        yield (run.hex(), number, party, at, event.request, *place, n_bytes, sent, event.seconds)
