"""A party, a user or a coordinator wants others to read lines that nobody wrote."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from fedforest.errors import ConfigurationError, FederationError
from fedforest.runtime.event_log import log_event, start_logging
from fedforest.runtime.messages.orders import LogOfRun, ShowRun
from fedforest.runtime.messages.results import RunDetails, RunEvents
from fedforest.transport.error_table import error_of_coordinator, error_of_party
from fedforest.transport.frames import Refusal
from tests.hostile.lying_parties import federation_with, let_refuse
from tests.integration.processes import result_type
from tests.runtime.service_recordings import vertical_order

FORGED = "2026-01-01T00:00:00.000Z warning revoked party=bank"
HOSTILE = f"no\n{FORGED}\r\x1b[2J\u202egnihton\u2028\x9b31m\u200b"
UNSEEN = ("\n", "\r", "\x1b", "\u202e", "\u2028", "\x9b", "\u200b")
RUN = bytes(15) + b"\x09"


@pytest.fixture
def logs(capsys: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    """What a service logs as text."""
    logger = logging.getLogger("fedforest")
    yield capsys
    while logger.handlers:
        logger.handlers.pop().close()


def written(logs: pytest.CaptureFixture[str]) -> str:
    """All lines so far; those that are no warnings are written a moment later."""
    for handler in logging.getLogger("fedforest").handlers:
        handler.flush()
    return logs.readouterr().err


def check_text(text: str) -> None:
    assert not [character for character in UNSEEN if character in text]


def test_a_refusal_forges_no_line_of_the_log_and_of_no_record(
    tmp_path: Path, logs: pytest.CaptureFixture[str]
) -> None:
    order = vertical_order()
    start_logging("text")
    with federation_with(tmp_path) as federation:
        let_refuse(federation, "shop", ConfigurationError.stating(HOSTILE))
        with pytest.raises(ConfigurationError, match="no") as caught:
            federation.ask(order, result_type(order), RUN)
        details = federation.ask(ShowRun(run=RUN.hex()), RunDetails)
        events = federation.ask(LogOfRun(run=RUN.hex()), RunEvents)
    check_text(str(caught.value))
    assert isinstance(details, RunDetails)
    assert isinstance(events, RunEvents)
    for text in (details.state.doing, *(event.text for event in events.events)):
        check_text(text)
    lines = written(logs)
    assert FORGED in lines  # inside a line of ours
    assert not [line for line in lines.splitlines() if line.startswith(FORGED)]
    check_text(lines.replace("\n", ""))


@pytest.mark.parametrize("form", ["text", "json"])
def test_fields_and_traces_forge_no_line_of_the_log(
    form: Literal["text", "json"], logs: pytest.CaptureFixture[str]
) -> None:
    start_logging(form)
    logger = logging.getLogger("fedforest.test")
    log_event(logger, "order", user=HOSTILE, names=[HOSTILE], by={HOSTILE: HOSTILE})
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("%s", HOSTILE)
    lines = written(logs).splitlines()
    assert not [line for line in lines if line.startswith(FORGED)]
    if form == "json":
        for line in lines:
            told = json.loads(line)
            check_text(str({name: value for name, value in told.items() if name != "trace"}))


@pytest.mark.parametrize("kind", ["ConfigurationError", "PartyLost", "PolicyRefusal"])
def test_errors_from_elsewhere_are_printable_for_whoever_raises_them(kind: str) -> None:
    fields: dict[str, str | int | float] = {"statement": HOSTILE, HOSTILE[:64]: 1}
    of_party = error_of_party(Refusal(1, kind, "stated", fields), "shop")
    told = Refusal(1, kind, HOSTILE[:64], fields, HOSTILE[:64], HOSTILE)
    for error in (of_party, error_of_coordinator(told)):
        assert isinstance(error, FederationError)
        check_text(f"{error} {error.party} {error.code}{''.join(map(str, error.fields))}")
