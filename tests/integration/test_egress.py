"""What the ledgers of real parties say, beside what the coordinator got from them."""

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.disclosure.egress_ledger import LedgerRecord, ledger_files
from fedforest.runtime.disclosure.ledger_check import check_ledger, read_records
from fedforest.runtime.messages.orders import PredictVertical
from fedforest.runtime.messages.results import (
    Exchanged,
    HorizontalResult,
    News,
    Predictions,
    VerticalResult,
)
from tests.integration.processes import Processes
from tests.integration.samples import horizontal, vertical


def records_of(home: Path, run: str) -> list[LedgerRecord]:
    return [record for record in read_records(home) if record.run == run and record.sequence]


def audit(home: Path, *arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["audit", *arguments, "--home", str(home)])
    return outcome.exit_code, outcome.output


def test_every_byte_that_the_coordinator_got_in_a_run_is_in_the_ledgers(pair: Processes) -> None:
    got: Counter[str] = Counter()

    def note(event: News) -> None:
        if isinstance(event, Exchanged):
            got.update(event.bytes_from)

    with pair.user() as user:
        result = user.train(vertical(2), VerticalResult, note)
    for party, role in pair.folder.parties.items():
        records = records_of(role.home, result.model)
        assert sum(record.bytes for record in records) == got[party]
        assert [record.sequence for record in records] == list(range(1, len(records) + 1))
        assert {record.kind for record in records} == {"sent"}
        assert check_ledger(role.home).is_whole
    leakage = json.loads(
        (pair.folder.coordinator.home / "runs" / result.model / "leakage.json").read_bytes()
    )
    assert leakage["figures"]["nodes_asked_about"] > 0
    told = Counter[str]()
    for learned in leakage["learned"]:
        assert "not declared" not in learned["reveals"]
        if learned["who"] == "the coordinator":
            told[learned["from"]] += learned["bytes"]
    assert told == got


def test_a_masked_run_leaves_a_report_and_ledgers_that_agree(pair: Processes) -> None:
    order = horizontal(2, aggregation=Masked())
    with pair.user() as user:
        run = user.train(order, HorizontalResult).model
    folder = pair.folder.coordinator.home / "runs" / run
    learned = json.loads((folder / "leakage.json").read_bytes())["learned"]
    at_coordinator = {one["message"] for one in learned if one["who"] == "the coordinator"}
    for role in pair.folder.parties.values():
        assert {record.message for record in records_of(role.home, run)} == at_coordinator
    assert "MaskedCounted" in at_coordinator
    assert "Counted" not in at_coordinator


def test_predictions_are_in_the_ledgers(pair: Processes) -> None:
    order = vertical(2)
    with pair.user() as user:
        model = user.train(order, VerticalResult).model
        before = {name: len(list(read_records(r.home))) for name, r in pair.folder.parties.items()}
        user.ask(PredictVertical(data=order.data, model=model), Predictions)
    for name, role in pair.folder.parties.items():
        messages = {record.message for record in list(read_records(role.home))[before[name] :]}
        assert messages & {"RowsSwept", "RowsLeapt", "RowsRouted"}


def test_a_killed_partys_ledger_is_whole_and_misses_no_answer(pair: Processes) -> None:
    shop, n_seen = pair.folder.parties["shop"], 0

    def kill_once(event: News) -> None:
        nonlocal n_seen
        n_seen += isinstance(event, Exchanged)
        if n_seen == 6:
            n_seen += 1000
            shop.kill()
            shop.start()

    with pair.user() as user:
        result = user.train(vertical(2, n_trees=8), VerticalResult, kill_once)
    assert n_seen > 1000
    records = records_of(shop.home, result.model)
    assert {record.sequence for record in records} == set(range(1, records[-1].sequence + 1))
    assert check_ledger(shop.home).is_whole


def test_auditors_commands_find_and_locate_a_changed_byte(pair: Processes, tmp_path: Path) -> None:
    with pair.user() as user:
        run = user.train(vertical(2), VerticalResult).model
    home = pair.folder.parties["bank"].home
    code, told = audit(home, "verify")
    assert code == 0
    assert "whole; end" in told
    code, told = audit(home, "summary")
    assert code == 0
    assert f"run {run}" in told
    code, told = audit(home, "report", run[:12])
    assert code == 0
    assert "LabelsShared" in told
    assert "known attack: grouping rows" in told

    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "head").write_bytes((home / "ledger" / "head").read_bytes())
    for path in ledger_files(home / "ledger"):
        (tmp_path / "ledger" / path.name).write_bytes(path.read_bytes())
    first = ledger_files(tmp_path / "ledger")[0]
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    code, told = audit(tmp_path, "verify")
    assert code == 1
    line = content[: len(content) // 2].count(b"\n") + 1
    assert f"record {line - 1} (000001.jsonl, line {line})" in told


@pytest.mark.parametrize("command", ["verify", "summary"])
def test_auditors_commands_print_json(pair: Processes, command: str) -> None:
    code, told = audit(pair.folder.parties["bank"].home, command, "--json")
    assert code == 0
    assert told[0] in "[{"
