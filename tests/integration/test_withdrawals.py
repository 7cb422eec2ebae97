"""Models are withdrawn by commands while all roles run as processes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fedforest.cli.main import app
from tests.integration.federation_folder import wait_for
from tests.integration.processes import Processes
from tests.integration.samples import COLUMNS, NAMES, vertical

DATA = [word for party in NAMES[:2] for word in ("--data", f"{party}={COLUMNS}")]


@pytest.fixture
def command(pair: Processes, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("FEDFOREST_PROFILE", pair.folder.profile)
    return CliRunner()


def run(command: CliRunner, *arguments: str | Path) -> Any:
    outcome = command.invoke(app, [*map(str, arguments), "--json"])
    assert outcome.exit_code == 0, f"{outcome.output}{outcome.exception}"
    return json.loads(outcome.stdout)


def predict(command: CliRunner, model: str, folder: Path) -> Result:
    return command.invoke(app, ["predict", model, *DATA, "--out", str(folder / "out.csv")])


def test_a_party_that_withdraws_while_it_runs_refuses_alone(
    pair: Processes, command: CliRunner, tmp_path: Path
) -> None:
    model = pair.train(vertical(2, n_trees=2, max_depth=3)).model
    assert predict(command, model, tmp_path).exit_code == 0
    home = ("--home", pair.folder.parties["shop"].home)
    withdrawing = ["party", "models", "withdraw", model[:8], *map(str, home)]
    assert command.invoke(app, withdrawing).exit_code == 2  # without --yes, and nobody to ask
    assert predict(command, model, tmp_path).exit_code == 0
    withdrawn = run(command, *withdrawing, "--yes")
    assert (withdrawn["state"], withdrawn["data"]) == ("withdrawn", [COLUMNS])
    refused = predict(command, model, tmp_path).exception
    assert "'shop'" in str(refused)
    assert "was withdrawn by party shop on 20" in str(refused)
    run(command, "models", "withdraw", model, "--yes")  # which says no other than shop did
    assert run(command, "party", "models", "show", model, *home)["withdrawal"]["by"] == "party shop"


def test_a_party_that_was_away_hears_of_a_withdrawal_when_it_is_back(
    pair: Processes, command: CliRunner, tmp_path: Path
) -> None:
    model = pair.train(vertical(2, n_trees=2, max_depth=3)).model
    shop = pair.folder.parties["shop"]
    shop.kill()
    wait_for(lambda: not pair.folder.is_connected("shop"), pair.folder)
    told = run(command, "models", "delete", model, "--yes")
    assert (told["state"], told["away"]) == ("deleted", ["shop"])
    refused = predict(command, model, tmp_path).exception
    assert "was withdrawn by user analyst" in str(refused)
    pair.folder.start()
    wait_for((shop.home / "models" / f"{model}.withdrawn").exists, pair.folder)
    wait_for(lambda: run(command, "models", "show", model)["away"] == [], pair.folder)
    listed = {each["model"]: each["state"] for each in run(command, "models", "list")}
    assert listed[model] == "deleted"
    home = ("--home", shop.home)
    asked = run(command, "party", "models", "show", model, *home)["withdrawal"]
    assert asked["deletion_asked_by"] == "user analyst, as the coordinator says"
    assert run(command, "party", "models", "delete", model, "--yes", *home)["files"] == []
    assert not list(shop.home.rglob(f"{model}.share"))
