"""Lines of logs are written beside the work, in order, and none is lost when a process ends."""

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest

from fedforest.runtime.event_log import LineWriter, log_event

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
