"""The record of what left a party: complete, chained, and honest about what happened to it."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.errors import ConfigurationError, LocalProtocolError, StorageError
from fedforest.protocol.asking import Accepted, Message
from fedforest.protocol.vertical.messages import SplitsFound
from fedforest.runtime.disclosure.egress_ledger import (
    Departure,
    EgressLedger,
    RunEgress,
    ledger_files,
)
from fedforest.runtime.disclosure.ledger_check import (
    Verdict,
    check_ledger,
    parse_place,
    read_records,
)
from fedforest.runtime.disclosure.ledger_summary import report_run, summarise
from fedforest.runtime.messages.party_requests import Done

RUN = bytes(range(16))
OTHER = bytes(range(16, 32))
PART = bytes(range(32, 48))
LINE_BYTES = 400  # more than a record of these tests has


def fill(home: Path, n_records: int = 12, *, lines_per_file: int = 4) -> None:
    """A ledger over several files."""
    with EgressLedger(home, "bank", max_file_bytes=lines_per_file * LINE_BYTES) as ledger:
        egress = RunEgress(ledger, RUN)
        for sequence in range(1, n_records + 1):
            egress.note("sent", sequence, SplitsFound, 100 + sequence)


def lines_of(home: Path) -> list[tuple[Path, int, bytes]]:
    """(file, line number from 1, line) of every record."""
    return [
        (path, number, line)
        for path in ledger_files(home / "ledger")
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1)
    ]


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_an_untouched_ledger_is_whole_over_all_its_files(tmp_path: Path) -> None:
    fill(tmp_path)
    verdict = check_ledger(tmp_path)
    assert verdict == Verdict(13, verdict.end, [], [])
    assert len(ledger_files(tmp_path / "ledger")) > 2
    assert verdict.end.number == 12


def test_records_say_when_and_in_which_run_what_left_and_what_it_reveals(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    begun, first, second = read_records(tmp_path)
    assert (begun.number, begun.kind, begun.party) == (0, "begun", "bank")
    assert (second.number, second.run, second.sequence) == (2, RUN.hex(), 2)
    assert (first.message, first.bytes, first.kind) == ("SplitsFound", 101, "sent")
    assert first.reveals == SplitsFound.reveals
    assert begun.time <= first.time <= second.time


def test_a_ledger_goes_on_after_it_was_closed(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    fill(tmp_path, 3)
    verdict = check_ledger(tmp_path)
    assert verdict.is_whole
    assert verdict.n_records == 7


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_changed_byte_is_found_and_its_record_is_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    home = tmp_path_factory.mktemp("changed")
    fill(home)
    lines = lines_of(home)
    number = data.draw(st.integers(0, len(lines) - 1))
    path, line_number, line = lines[number]
    at = data.draw(st.integers(0, len(line) - 2))  # a line's end is another test's
    flip = data.draw(st.integers(1, 255))
    if line[at] ^ flip == ord("\n"):
        return
    changed = line[:at] + bytes([line[at] ^ flip]) + line[at + 1 :]
    rewrite(path, lambda old: [*old[: line_number - 1], changed, *old[line_number:]])
    verdict = check_ledger(home)
    assert not verdict.is_whole
    found = verdict.damage[0]
    assert f"{path.name}, line {line_number}" in found or f"record {number}" in found


@pytest.mark.parametrize("number", range(13))
def test_a_removed_record_is_found_and_located(tmp_path: Path, number: int) -> None:
    fill(tmp_path)
    path, line_number, _ = lines_of(tmp_path)[number]
    rewrite(path, lambda old: [*old[: line_number - 1], *old[line_number:]])
    verdict = check_ledger(tmp_path)
    assert f"records {number} to {number} are missing" in verdict.damage[0]


def test_records_that_changed_places_are_found(tmp_path: Path) -> None:
    fill(tmp_path, lines_per_file=40)
    (path,) = ledger_files(tmp_path / "ledger")
    rewrite(path, lambda old: [*old[:4], old[5], old[4], *old[6:]])
    verdict = check_ledger(tmp_path)
    assert "missing before record 5" in verdict.damage[0]
    assert any("record 4 stands where record 6 belongs" in line for line in verdict.damage)


@pytest.mark.parametrize("index", [0, 1, -1])
def test_a_removed_file_is_found(tmp_path: Path, index: int) -> None:
    fill(tmp_path)
    ledger_files(tmp_path / "ledger")[index].unlink()
    assert "are missing" in check_ledger(tmp_path).damage[0]


def test_records_cut_off_at_the_end_are_found_by_the_head(tmp_path: Path) -> None:
    fill(tmp_path)
    path = ledger_files(tmp_path / "ledger")[-1]
    rewrite(path, lambda old: old[:-1])
    assert check_ledger(tmp_path).damage == [
        "records 12 to 12 are missing at the end, says the file head"
    ]


def test_a_ledger_written_anew_does_not_have_the_end_that_was_kept(tmp_path: Path) -> None:
    fill(tmp_path / "true")
    kept = check_ledger(tmp_path / "true").to_json()["end"]
    assert check_ledger(tmp_path / "true", parse_place(kept)).is_whole
    fill(tmp_path / "forged")
    verdict = check_ledger(tmp_path / "forged", parse_place(kept))
    assert any(
        "record 12" in line and "not the one that was kept" in line for line in verdict.damage
    )
    fill(tmp_path / "short", 5)
    verdict = check_ledger(tmp_path / "short", parse_place(kept))
    assert "records 6 to 12 are missing at the end, says what was kept" in verdict.damage


def test_a_ledger_without_its_head_is_damaged(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "ledger" / "head").unlink()
    assert "head is missing" in check_ledger(tmp_path).damage[0]


@pytest.mark.parametrize("n_left", [1, 30, 200])
def test_a_record_that_a_crash_tore_is_told_apart_and_mended(tmp_path: Path, n_left: int) -> None:
    fill(tmp_path, 3, lines_per_file=40)
    (path,) = ledger_files(tmp_path / "ledger")
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:n_left])
    verdict = check_ledger(tmp_path)
    assert verdict.is_whole
    assert "ends in the middle of record 4" in verdict.notices[0]
    fill(tmp_path, 1)
    verdict = check_ledger(tmp_path)
    assert verdict.is_whole
    assert verdict.n_records == 6
    assert f"{n_left} bytes of a record" in verdict.notices[0]


def test_records_that_a_loss_of_power_took_leave_a_trace(tmp_path: Path) -> None:
    fill(tmp_path, 5, lines_per_file=40)
    (path,) = ledger_files(tmp_path / "ledger")
    rewrite(path, lambda old: old[:-2])
    EgressLedger(tmp_path, "bank").close()
    verdict = check_ledger(tmp_path)
    assert verdict.is_whole
    assert "records up to 5 were here" in verdict.notices[0]


def test_what_a_restart_finds_answered_and_not_noted_is_noted_then_and_only_once(
    tmp_path: Path,
) -> None:
    fill(tmp_path, 3)
    with EgressLedger(tmp_path, "bank") as ledger:
        for _ in range(2):
            egress = RunEgress(ledger, RUN)
            for sequence in range(1, 6):
                egress.note("recovered", sequence, SplitsFound, 7)
        RunEgress(ledger, OTHER).note("recovered", 1, SplitsFound, 7)
    recovered = [r for r in read_records(tmp_path) if r.kind == "recovered"]
    assert [(r.run, r.sequence) for r in recovered] == [
        (RUN.hex(), 4),
        (RUN.hex(), 5),
        (OTHER.hex(), 1),
    ]


def test_a_reply_that_does_not_declare_what_it_reveals_may_not_leave(tmp_path: Path) -> None:
    class Undeclared(Message, frozen=True):
        pass

    with EgressLedger(tmp_path, "bank") as ledger:
        with pytest.raises(LocalProtocolError, match="Undeclared may not leave"):
            ledger.record(Departure.of_reply("sent", Undeclared, 1))
        ledger.record(Departure.of_reply("sent", Accepted, 1))
    assert [record.message for record in read_records(tmp_path)] == ["", "Accepted"]


def test_one_process_at_a_time_writes_a_ledger(tmp_path: Path) -> None:
    with EgressLedger(tmp_path, "bank"), pytest.raises(StorageError, match="in use"):
        EgressLedger(tmp_path, "bank")
    EgressLedger(tmp_path, "bank").close()


def test_nothing_may_leave_where_the_ledger_cannot_be_written(tmp_path: Path) -> None:
    ledger = EgressLedger(tmp_path, "bank")
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full")
    genuine = os.dup(ledger._file)
    with full.open("wb") as device:
        os.dup2(device.fileno(), ledger._file)
        with pytest.raises(StorageError, match="ledger cannot be written: no space is left"):
            ledger.record(Departure.of_reply("sent", SplitsFound, 1))
    os.dup2(genuine, ledger._file)
    os.close(genuine)
    ledger.record(Departure.of_reply("sent", SplitsFound, 1))
    ledger.close()
    verdict = check_ledger(tmp_path)
    assert verdict.is_whole
    assert verdict.n_records == 2


def test_a_summary_counts_by_run_and_message_and_tells_attacks(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    with EgressLedger(tmp_path, "bank") as ledger:
        RunEgress(ledger, RUN).note("resent", 3, SplitsFound, 103)
        RunEgress(ledger, OTHER).note("sent", 1, Accepted, 10)
    first, second = summarise(tmp_path)
    (flow,) = first.flows.values()
    assert (flow.n_messages, flow.n_repeated, flow.n_bytes) == (4, 1, 101 + 102 + 103 + 103)
    assert second.run == OTHER.hex()
    report = report_run(tmp_path, RUN.hex()[:5])
    assert report == first
    assert [attack.name for attack in report.attacks()] == ["ranking columns"]
    assert "SplitsFound x 4 (1 sent again)" in report.to_text()
    assert json.loads(json.dumps(report.to_json()))["bytes"] == 409
    with pytest.raises(ConfigurationError, match="no run"):
        report_run(tmp_path, "ffff")
    with pytest.raises(ConfigurationError):
        report_run(tmp_path, "")


def test_parts_of_a_run_are_counted_with_the_run(tmp_path: Path) -> None:
    with EgressLedger(tmp_path, "bank") as ledger:
        begun = Departure.of_reply("sent", Done, 10, PART)
        ledger.record(begun._replace(part_of=RUN.hex()))
        ledger.record(Departure.of_reply("sent", SplitsFound, 7, PART, 1))
        ledger.record(Departure.of_reply("sent", SplitsFound, 5, RUN, 1))
    (summary,) = summarise(tmp_path)
    assert (summary.run, summary.n_bytes) == (RUN.hex(), 22)
    assert report_run(tmp_path, RUN.hex()).n_bytes == 22


def test_a_folder_without_a_ledger_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no ledger"):
        check_ledger(tmp_path)


@pytest.mark.parametrize("text", ["", "5", "5:abc", "x:" + 64 * "0"])
def test_what_is_no_end_of_a_ledger_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="NUMBER:HASH"):
        parse_place(text)


def test_a_record_takes_little_time(tmp_path: Path) -> None:
    departure = Departure.of_reply("sent", SplitsFound, 100, RUN, 1)
    with EgressLedger(tmp_path, "bank") as ledger:
        best = 1.0
        for _ in range(20):
            started = time.process_time()
            for _ in range(100):
                ledger.record(departure)
            best = min(best, (time.process_time() - started) / 100)
    assert best < 200e-6  # 20 are usual; machines of tests are slow and busy


@pytest.mark.parametrize("arguments", [["summary"], ["report", RUN.hex()[:6]]])
def test_an_auditor_is_told_how_many_records_no_figure_counts(
    tmp_path: Path, arguments: list[str]
) -> None:
    fill(tmp_path)
    command = ["audit", *arguments, "--home", str(tmp_path)]
    whole = CliRunner().invoke(app, command)
    assert "SplitsFound x 12" in whole.stdout
    assert "WARNING" not in whole.stderr
    first, last = ledger_files(tmp_path / "ledger")[:2]
    rewrite(first, lambda lines: [*lines[:-1], lines[-1].replace(b'"bytes"', b"bytes")])
    rewrite(last, lambda lines: [b"\xff" + lines[0], *lines[1:]])
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    assert "SplitsFound x 10" in told.stdout
    assert "2 of its records cannot be read and are not counted here" in told.stderr
    assert check_ledger(tmp_path).to_json()["unreadable"] == 2


def test_half_a_record_that_a_crash_left_is_none_that_cannot_be_read(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    (path,) = ledger_files(tmp_path / "ledger")
    path.write_bytes(path.read_bytes()[:-20])
    (tmp_path / "ledger" / "head").write_bytes(b"")
    verdict = check_ledger(tmp_path)
    assert verdict.n_unreadable == 0
    assert "in the middle of record 3" in verdict.notices[0]
