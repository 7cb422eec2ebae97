"""Logs of services: one line per event, as text or as JSON; fields hold counts, never data.

Texts of peers and users are made printable here, so that an event is one line and reads as it is.

A background thread writes lines a few milliseconds later; warnings are written at once. In a
service, an event goes directly to the writer: making a `logging` record for every event of every
exchange took more time than the work itself.
"""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TextIO

import msgspec

from fedforest.printable import printable, printable_in
from fedforest.runtime.driver import Exchange

Format = Literal["text", "json"]
_FIELDS = "fedforest_fields"
_LATER_SECONDS = 0.02
_JSON = msgspec.json.Encoder(enc_hook=str)


def log_event(
    logger: logging.Logger, event: str, *, severity: int = logging.INFO, **fields: Any
) -> None:
    """Log one event as one line."""
    if _writers:
        if logger.isEnabledFor(severity):
            _writers[-1].note(_Event(time.time(), severity, event, fields))
    else:
        logger.log(severity, event, extra={_FIELDS: fields})


def log_exchange(logger: logging.Logger, run: bytes, exchange: Exchange) -> None:
    """Log an exchange as one line for each party."""
    note = exchange.note
    trees = note.get("trees")
    for party, n_bytes in exchange.bytes_to.items():
        log_event(
            logger,
            "exchange",
            run=run.hex(),
            step=exchange.request,
            trees=None if trees is None else [trees.start, trees.stop],
            level=note.get("level"),
            open_nodes=note.get("open_nodes"),
            party=party,
            bytes_to=n_bytes,
            bytes_from=exchange.bytes_from.get(party, 0),
            seconds=round(exchange.seconds, 6),
            replayed=bool(note.get("replayed", False)),
        )


class _Event(NamedTuple):
    """The content of one line."""

    created: float
    severity: int
    text: str
    fields: Mapping[str, Any]
    trace: str = ""


class _Line(logging.Formatter):
    """Time, level and event, then the fields."""

    def __init__(self, form: Format) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, _FIELDS, {})
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return self.write(
            _Event(record.created, record.levelno, record.getMessage(), fields, trace)
        )

    def write(self, event: _Event) -> str:
        """Return the line of an event, without a line break."""
        fields = {k: v for k, v in event.fields.items() if v is not None}
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(event.created))
        moment += f".{int(event.created % 1.0 * 1000):03d}Z"
        severity = logging.getLevelName(event.severity).lower()
        # indented, so that no line of a trace passes for an event
        trace = "\n".join(f"    {printable(line)}" for line in event.trace.splitlines())
        if self._form == "json":
            line = {"time": moment, "severity": severity, "event": printable(event.text)}
            line |= printable_in(fields) | ({"trace": trace} if trace else {})
            return _JSON.encode(line).decode()
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        text = f"{moment} {severity:7} {printable(f'{event.text} {told}'.rstrip())}"
        return f"{text}\n{trace}" if trace else text


class LineWriter(logging.Handler):
    """Write lines on a background thread, many at a time, so that the logging thread does not wait.

    When the process exits normally, `logging` closes its handlers, which writes the rest.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._records: deque[logging.LogRecord | _Event] = deque()
        self._has_records = threading.Event()
        self._is_closed = threading.Event()
        threading.Thread(target=self._write_all, name="fedforest-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record for writing; a warning writes all queued ones at once."""
        self._keep(record, record.levelno)

    def note(self, event: _Event) -> None:
        """Queue an event that is no record of `logging`, as `emit` does."""
        self._keep(event, event.severity)

    def _keep(self, event: logging.LogRecord | _Event, severity: int) -> None:
        self._records.append(event)
        if severity >= logging.WARNING:
            self.flush()
        elif not self._has_records.is_set():
            self._has_records.set()

    def flush(self) -> None:
        """Write all queued events; a full disk must not stop the work that logs them."""
        self.acquire()
        try:
            records = [self._records.popleft() for _ in range(len(self._records))]
            if records:
                self._stream.write("".join(f"{self._describe(record)}\n" for record in records))
                self._stream.flush()
        except OSError:
            self.handleError(logging.makeLogRecord({"msg": "events"}))
        finally:
            self.release()

    def _describe(self, event: logging.LogRecord | _Event) -> str:
        if isinstance(event, logging.LogRecord):
            return self.format(event)
        assert isinstance(self.formatter, _Line)
        return self.formatter.write(event)

    def close(self) -> None:
        """Write all queued events, and end the thread."""
        if self in _writers:
            _writers.remove(self)
        self._is_closed.set()
        self._has_records.set()
        self.flush()
        super().close()

    def _write_all(self) -> None:
        while not self._is_closed.is_set():
            self._has_records.wait()
            self._is_closed.wait(_LATER_SECONDS)
            self._has_records.clear()
            self.flush()


_writers: list[LineWriter] = []  # of this process: one at most


def start_logging(form: Format, *, verbose: bool = False) -> None:
    """Write the package's events to standard error."""
    handler = LineWriter(sys.stderr)
    handler.setFormatter(_Line(form))
    logger = logging.getLogger("fedforest")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
    _writers[:] = [handler]
