"""Logs of services: one line per event, as text or as JSON; fields hold counts, never data."""

import logging
import sys
import time
from typing import Any, Literal

import msgspec

from fedforest.runtime.driver import Exchange

Format = Literal["text", "json"]
_FIELDS = "fedforest_fields"
_JSON = msgspec.json.Encoder(enc_hook=str)


def log_event(logger: logging.Logger, event: str, **fields: Any) -> None:
    """One line about something that happened."""
    logger.info(event, extra={_FIELDS: fields})


def log_exchange(logger: logging.Logger, run: bytes, exchange: Exchange) -> None:
    """One line for each party that an exchange asked."""
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


class _Line(logging.Formatter):
    """Time, level and event, then the fields."""

    def __init__(self, form: Format) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        fields = {k: v for k, v in getattr(record, _FIELDS, {}).items() if v is not None}
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        moment += f".{int(record.msecs):03d}Z"
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._form == "json":
            about = {"time": moment, "severity": record.levelname.lower()}
            line = {**about, "event": record.getMessage()}
            line |= fields | ({"trace": trace} if trace else {})
            return _JSON.encode(line).decode()
        told = " ".join(f"{name}={value}" for name, value in fields.items())
        text = f"{moment} {record.levelname.lower():7} {record.getMessage()} {told}".rstrip()
        return f"{text}\n{trace}" if trace else text


def start_logging(form: Format, *, verbose: bool = False) -> None:
    """Write the package's events to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(form))
    logger = logging.getLogger("fedforest")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
