"""Other programs can use every command: results and errors as JSON, with lower-case keys."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedforest.cli.main import app

NO_RESULT = {"demo", "coordinator start", "party start", "mpi"}  # `mpi` runs a script
PIN = "-".join(["abcd"] * 8)


def leaf_commands() -> Iterator[tuple[str, Any]]:
    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        for child, inner in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {child}".strip(), inner)
        if not hasattr(command, "commands"):
            yield name, command

    yield from walk("", get_command(app))


@pytest.mark.parametrize("name", sorted({name for name, _ in leaf_commands()} - NO_RESULT))
def test_every_command_with_a_result_gives_it_as_json(name: str) -> None:
    command = dict(leaf_commands())[name]
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--json" in options


def run_as_process(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "fedforest", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "message"),
    [
        (("train", "nowhere.toml", "--json"), 1, "ConfigurationError", "cannot be read"),
        (("predict", "--json"), 2, "UsageError", "Missing argument"),
        (("runs", "list", "--json", "--colour"), 2, "UsageError", "No such option"),
    ],
)
def test_an_error_is_one_object_on_standard_error(
    arguments: tuple[str, ...], code: int, kind: str, message: str
) -> None:
    outcome = run_as_process(*arguments)
    assert (outcome.returncode, outcome.stdout) == (code, "")
    complaint = json.loads(outcome.stderr)
    assert complaint.keys() == {"error", "message"}
    assert complaint["error"] == kind
    assert message in complaint["message"]


def test_results_of_an_operators_commands_have_lower_case_keys(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("id,value\n1,2\n2,3\n")
    home, party = tmp_path / "coordinator", tmp_path / "party"
    party.mkdir()

    def ask(*arguments: str | Path) -> Any:
        outcome = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        assert outcome.exit_code == 0, outcome.output
        return json.loads(outcome.stdout)

    told = [
        ask("coordinator", "init", "tests", "--home", home),
        ask("coordinator", "invite", "bank", "--home", home, "--valid", "1h"),
        ask("coordinator", "parties", "--home", home),
        ask("party", "data", "add", "rows", table, "--id", "id", "--home", party),
        ask("party", "data", "list", "--home", party)[0],
        ask("party", "policy", "init", "--home", party),
        ask("party", "policy", "check", "--home", party),
        ask("party", "data", "remove", "rows", "--home", party),
    ]
    assert told[0] == {"federation": "tests", "home": str(home)}
    assert told[1]["valid_seconds"] == 3600.0
    assert told[3] == {"name": "rows", "rows": 2, "rows_that_share_an_id": 0}
    assert all(re.fullmatch("[a-z_]+", key) for result in told for key in result)
