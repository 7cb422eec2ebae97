"""Logs of services: one line per event, as text or as JSON; fields hold counts, never data.

Texts of peers and users are made printable here, so that an event is one line and reads as it is.

A background thread writes lines a few milliseconds later; warnings are written at once. In a
service, an event goes directly to the writer: making a `logging` record for every event of every
exchange took more time than the work itself.
"""

import faulthandler
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TextIO

import msgspec

from fedforest.errors import FederationError, LocalProtocolError, ReplayError, StorageError
from fedforest.printable import printable, printable_in
from fedforest.runtime.driver import Exchange
from fedforest.runtime.meters import METERS

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
_FIELDS = "fedforest_fields"
_LATER_SECONDS = 0.02
_STDERR = 2  # the descriptor that libraries print to
_END_SECONDS = 2.0  # for the last lines of libraries
# How gRPC's own lines begin, as those of absl do: I0000 00:00:1763.1 ...
_SEVERITIES = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}
_JSON = msgspec.json.Encoder(enc_hook=str)


def log_event(
    logger: logging.Logger, event: str, *, severity: int = logging.INFO, **fields: Any
) -> None:
    """Log one event as one line."""
    if not logger.isEnabledFor(severity):
        return
    METERS.add("fedforest_log_events", logging.getLevelName(severity).lower())
    if _writers:
        _writers[-1].note(_Event(time.time(), severity, event, fields))
    else:
        logger.log(severity, event, extra={_FIELDS: fields})


def severity_of(error: BaseException) -> int:
    """Return how severe an error is to the operator of the process that logs it.

    A full disk or a bug needs the operator; a party that went, or a request that breaks a rule, may
    be mended by others.
    """
    is_plain = type(error) is FederationError or not isinstance(error, FederationError)
    if is_plain or isinstance(error, StorageError | ReplayError | LocalProtocolError):
        return logging.ERROR
    return logging.WARNING


def log_exchange(logger: logging.Logger, run: bytes, exchange: Exchange) -> None:
    """Log an exchange as one line for each party, for who looks for a mistake."""
    METERS.add("fedforest_exchanges")
    METERS.add("fedforest_exchange_seconds", value=exchange.seconds)
    for direction, bytes_of in (("to", exchange.bytes_to), ("from", exchange.bytes_from)):
        METERS.add("fedforest_exchange_bytes", direction, value=sum(bytes_of.values()))
    if not logger.isEnabledFor(logging.DEBUG):
        return
    note = exchange.note
    trees = note.get("trees")
    for party, n_bytes in exchange.bytes_to.items():
        log_event(
            logger,
            "exchange",
            severity=logging.DEBUG,
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


@contextmanager
def logging_to_stderr(form: Format, level: Level) -> Iterator[None]:
    """Write the package's events, and what libraries say, to standard error until the block ends.

    Libraries written in C, such as gRPC's, print to the descriptor of standard error itself. They
    print into a pipe meanwhile, whose lines become events, so that a log of JSON is nothing else.
    """
    genuine = os.dup(_STDERR)
    with os.fdopen(genuine, "w", encoding="utf-8", errors="replace", buffering=1) as stream:
        start_logging(form, level, stream)
        handler, root = _writers[-1], logging.getLogger()
        faulthandler.enable(stream)  # what a crash says cannot go through a thread
        handler.setLevel(level.upper())
        root.addHandler(handler)  # warnings of other libraries
        logging.raiseExceptions = False  # a line that cannot be written is lost, not printed anew
        reader = _capture_stderr(handler)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(genuine, _STDERR)  # closes the pipe's only writer: its reader ends
            reader.join(_END_SECONDS)
            faulthandler.disable()
            root.removeHandler(handler)
            logging.getLogger("fedforest").removeHandler(handler)
            handler.close()


def _capture_stderr(writer: "LineWriter") -> threading.Thread:
    """Turn every line that this process prints to standard error into an event."""
    sys.stderr.flush()
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)

    def read() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip()
                severity = _SEVERITIES.get(text[:1], logging.WARNING)
                if text and logging.getLogger("fedforest").isEnabledFor(severity):
                    writer.note(_Event(time.time(), severity, "library", {"text": text}))

    thread = threading.Thread(target=read, name="fedforest-stderr", daemon=True)
    thread.start()
    return thread


def start_logging(form: Format, level: Level = "info", stream: TextIO | None = None) -> None:
    """Write the package's events to a stream, standard error unless another is given."""
    handler = LineWriter(sys.stderr if stream is None else stream)
    handler.setFormatter(_Line(form))
    logger = logging.getLogger("fedforest")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
    _writers[:] = [handler]
