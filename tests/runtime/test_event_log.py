"""Lines of logs are written beside the work, in order, and none is lost when a process ends."""

import io
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from fedforest.errors import (
    FederationError,
    PartyLost,
    PolicyRefusal,
    ReplayError,
    StorageError,
)
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.event_log import LineWriter, log_event, severity_of
from tests.runtime.service_recordings import vertical_order

DEADLINE_SECONDS = 20.0


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logger(stream: io.StringIO) -> Iterator[logging.Logger]:
    """A logger of its own whose lines go to the stream."""
    logger = logging.Logger("test", logging.INFO)
    writer = LineWriter(stream)
    logger.addHandler(writer)
    yield logger
    writer.close()


def test_an_event_is_written_soon_by_itself(logger: logging.Logger, stream: io.StringIO) -> None:
    logger.info("happened")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not stream.getvalue():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert stream.getvalue() == "happened\n"


def test_a_warning_is_written_at_once_and_what_came_before_it_as_well(
    logger: logging.Logger, stream: io.StringIO
) -> None:
    logger.info("first")
    logger.warning("second")
    assert stream.getvalue() == "first\nsecond\n"


def test_what_is_left_when_the_process_ends_is_written(
    logger: logging.Logger, stream: io.StringIO
) -> None:
    for number in range(100):
        logger.info("%d", number)
    logger.handlers[0].close()
    assert stream.getvalue().split() == [str(number) for number in range(100)]


class FullDisk(io.StringIO):
    """Takes nothing while it is full."""

    is_full = True

    def flush(self) -> None:
        if self.is_full:
            raise OSError(27, "File too large")


def test_a_log_that_cannot_be_written_does_not_end_the_work_it_tells_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)  # else logging tells of it on stderr
    logger, stream = logging.Logger("test", logging.INFO), FullDisk()
    writer = LineWriter(stream)
    logger.addHandler(writer)
    logger.warning("first")
    stream.is_full = False
    logger.warning("second")
    writer.close()
    assert stream.getvalue() == "first\nsecond\n"


def test_fields_that_json_does_not_know_are_written_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from fedforest.runtime.event_log import start_logging  # noqa: PLC0415 - after stderr is caught

    start_logging("json")
    logger = logging.getLogger("fedforest.test")
    try:
        log_event(logger, "exchange", trees=range(3), bytes_to=7, level=None)
    finally:
        logging.getLogger("fedforest").handlers.pop().close()
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["trees"], line["bytes_to"]) == ("exchange", "range(0, 3)", 7)
    assert "level" not in line


SAYING = """
import logging, os, sys, threading, warnings
from fedforest.runtime.event_log import log_event, logging_to_stderr
log = logging.getLogger("fedforest.test")
with logging_to_stderr("json", sys.argv[1]):
    os.write(2, b"E0000 00:00:17.1 10 ssl.cc:1] a handshake failed\\n")
    os.write(2, b"I0000 00:00:17.1 10 x.cc:1] idle\\nforeign words \\x1b[31m\\n")
    logging.getLogger("other.library").warning("it %s", "warns")
    for severity in (10, 20, 30, 40):
        log_event(log, "said", severity=severity)
print("after", file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", {"library error", "library info", "library warning", "said debug", "said info"}),
        ("info", {"library error", "library info", "library warning", "said info"}),
        ("warning", {"library error", "library warning", "said warning"}),
        ("error", {"library error", "said error"}),
    ],
)
def test_what_libraries_print_is_events_of_the_log(level: str, expected: set[str]) -> None:
    command = [sys.executable, "-c", SAYING, level]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = outcome.stderr.splitlines()
    assert lines.pop() == "after"
    events = [json.loads(line) for line in lines]  # every other line is an object
    said = {f"{event['event']} {event['severity']}" for event in events}
    assert expected <= said
    least = logging.getLevelNamesMapping()[level.upper()]
    names = logging.getLevelNamesMapping()
    assert all(
        names[event["severity"].upper()] >= least
        for event in events
        if event["event"] in ("said", "library")
    )
    texts = [event.get("text", "") for event in events]
    assert any("a handshake failed" in text for text in texts)
    assert not any("\x1b" in text for text in texts)
    assert any(event["event"] == "it warns" for event in events) == (level != "error")


@pytest.mark.parametrize(
    ("error", "severity"),
    [
        (StorageError.of("storage.full", path="x"), logging.ERROR),
        (
            FederationError("internal error at the coordinator (KeyError), see its log"),
            logging.ERROR,
        ),
        (ReplayError("other than before"), logging.ERROR),
        (PartyLost("away", "shop"), logging.WARNING),
        (PolicyRefusal("not allowed"), logging.WARNING),
    ],
)
def test_what_needs_the_operator_is_an_error(error: FederationError, severity: int) -> None:
    assert severity_of(error) == severity


def test_a_run_that_ends_badly_is_logged_with_run_and_user(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "fedforest")
    order = msgspec.structs.replace(vertical_order(), asker="ann")
    Job(bytes(16), order).end("paused", StorageError.of("storage.full", path="x"))
    Job(bytes(16), order).end("finished")
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "paused")
    told = json.dumps(vars(record), default=str)
    assert bytes(16).hex() in told
    assert '"user": "ann"' in told
