"""A party from an older copy: it answers nothing until its owner has decided what it forgot."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.errors import ConfigurationError, PolicyRefusal, ProtocolError
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.orders import DescribeTables, PredictVertical
from fedforest.runtime.messages.party_requests import BeginRun, EndRun
from fedforest.runtime.messages.results import Predictions, TablesDescribed, VerticalResult
from fedforest.runtime.messages.roles import VerticalRole
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.retention.restoring import (
    back_up_party,
    decide,
    describe_uncertainty,
    restore_party,
)
from fedforest.runtime.party.spending import Budgets
from fedforest.transport.codec import encode
from tests.hostile.lying_coordinator import BANK, DATA, TERMS, forest, say, trained_federation
from tests.integration.local_federation import LocalFederation, make_party
from tests.runtime.ruled_federations import ruled_federation
from tests.runtime.service_recordings import RUN, make_pattern

UNDER_WAY = bytes([5]) * 16
SINCE = bytes([6]) * 16


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path) as federation:
        yield federation


def restore_bank(federation: LocalFederation, folder: Path) -> Path:
    """Replace the bank by what a copy of it holds; the tables are put back."""
    home = federation.homes[BANK]
    federation.parties[BANK].close()
    tables = {path.name: path.read_bytes() for path in home.glob("*.parquet")}
    again = folder / "again" / BANK
    again.parent.mkdir()
    restore_party(folder / "copy", again)
    assert not list(again.glob("*.parquet"))
    for name, data in tables.items():
        (again / name).write_bytes(data)
    federation.homes[BANK] = again
    federation.parties[BANK] = make_party(again)
    federation.hub.endpoints[BANK] = federation.parties[BANK].answer
    return again


def test_a_restored_party_answers_nobody_before_its_owner_has_decided(
    federation: LocalFederation, tmp_path: Path
) -> None:
    back_up_party(federation.homes[BANK], tmp_path / "copy", "0")
    home = restore_bank(federation, tmp_path)
    predicting = PredictVertical(data=DATA, model=RUN.hex())
    for order, kind in (
        (predicting, Predictions),
        (DescribeTables(data=DATA), TablesDescribed),
        (forest(), VerticalResult),
    ):
        with pytest.raises(PolicyRefusal, match=r"restored from a copy.*party settle") as caught:
            federation.ask(order, kind, SINCE)
        assert caught.value.party == BANK
    decide(home, {})
    assert isinstance(federation.ask(predicting, Predictions), Predictions)
    with pytest.raises(ConfigurationError, match="decided already"):
        decide(home, {})


def test_epsilon_that_was_spent_since_the_copy_is_booked_by_the_owner(tmp_path: Path) -> None:
    pattern = make_pattern(tmp_path / "pattern")
    with ruled_federation(tmp_path / "federation", pattern) as federation:
        book_what_was_spent(federation, tmp_path)


def book_what_was_spent(federation: LocalFederation, tmp_path: Path) -> None:
    home = federation.homes[BANK]
    rules = '[default]\nmin_rows_per_leaf = 1\nepsilon_ceiling = 3.0\nlabel_columns = ["label"]\n'
    (home / "policy.toml").write_text(rules)
    federation.ask(forest(label_epsilon=1.0), VerticalResult, UNDER_WAY)
    back_up_party(home, tmp_path / "copy", "0")
    federation.ask(forest(label_epsilon=1.5), VerticalResult, SINCE)
    again = restore_bank(federation, tmp_path)
    assert describe_uncertainty(again)["epsilon"]["columns"] == {"spent": 1.0, "ceiling": 3.0}
    with pytest.raises(ConfigurationError, match="no data set 'loans'"):
        decide(again, {"loans": 1.0})
    outcome = CliRunner().invoke(
        app, ["party", "settle", "--home", str(again), "--spent", "columns=1.5", "--yes"]
    )
    assert outcome.exit_code == 0, outcome.output
    assert "columns: epsilon 1, of 3; now +1.5" in outcome.output
    budgets = Budgets(again)
    assert budgets.read("columns", budgets.ceiling("columns", PolicyFile(again))).spent == 2.5
    with pytest.raises(PolicyRefusal, match="ceiling of epsilon"):
        federation.ask(forest(label_epsilon=1.0), VerticalResult, bytes([7]) * 16)
    assert federation.ask(forest(label_epsilon=0.5), VerticalResult, bytes([8]) * 16)


def test_runs_that_were_under_way_end_with_the_reason(
    federation: LocalFederation, tmp_path: Path
) -> None:
    """Also those that began since, and those of which only the end was missing."""
    home = federation.homes[BANK]
    begin = BeginRun(UNDER_WAY, VerticalRole(data="columns", label="label"), TERMS)
    say(federation, begin)
    federation.parties[BANK].close()
    back_up_party(home, tmp_path / "copy", "0")
    again = restore_bank(federation, tmp_path)
    decide(again, {})
    for run in (UNDER_WAY, SINCE):
        for request in (RunRequest(run, 1, memoryview(b"")), EndRun(run, run.hex())):
            with pytest.raises(ProtocolError, match=r"restored from a copy made 20.*order it anew"):
                federation.parties[BANK].answer(encode(request))
        say(federation, EndRun(run, None))  # giving it up is always possible
    say(federation, begin)  # it is over, so this begins nothing
    with pytest.raises(ProtocolError, match="restored"):
        say(federation, RunRequest(UNDER_WAY, 1, memoryview(b"")))
    journals = list((again / "runs").rglob("journal"))
    assert journals == []
    assert msgspec.json.decode((again / "restored.settled.json").read_bytes())["runs"] == [
        UNDER_WAY.hex()
    ]
