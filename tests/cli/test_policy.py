"""Policies from the command line."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedforest.cli.main import app, app_entry
from fedforest.cli.policy import TEMPLATE
from fedforest.runtime.policy import PolicyFile, Rules
from fedforest.runtime.run_approval import spending_of_labels
from fedforest.runtime.spending import Budgets


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["party", "policy", *arguments, "--home", str(home)])


def test_init_writes_a_file_that_changes_nothing_and_never_over_another(tmp_path: Path) -> None:
    assert run(tmp_path, "init").exit_code == 0
    assert PolicyFile(tmp_path).rules("any") == Rules()
    assert run(tmp_path, "init").exit_code == 1


def test_the_lines_that_init_comments_out_are_rules_that_can_be_read(tmp_path: Path) -> None:
    heading, _, body = TEMPLATE.partition("\n\n")
    assert heading.startswith("#")
    (tmp_path / "policy.toml").write_text(body.replace("\n# ", "\n"))
    policy = PolicyFile(tmp_path)
    assert policy.rules("other") == Rules(askers=("ann", "bob"), columns=("age", "city"))
    assert policy.rules("patients").min_rows_per_leaf == 20
    assert all(f"# {rule} = " in body for rule in Rules.__struct_fields__)


def test_show_tells_the_rules_of_every_data_set_and_what_is_spent(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[data.loans]\nepsilon_ceiling = 3.0\n")
    Budgets(tmp_path).book("loans", 3.0, "a run", spending_of_labels(2.0))
    told = json.loads(run(tmp_path, "show", "--json").output)
    assert told["any other"]["epsilon_ceiling"] is None
    assert (told["loans"]["epsilon_ceiling"], told["loans"]["epsilon_spent"]) == (3.0, 2.0)
    assert "min_rows_per_leaf" in run(tmp_path, "show").output


def test_check_points_at_the_line_of_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text("[default]\nuse = 3\n")
    command = ["fedforest", "party", "policy", "check", "--home", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        app_entry()
    assert stop.value.code == 1
    assert "policy.toml:2:7: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ((), ""),
        (("--min-samples-leaf", "3"), "at least 5 rows"),
        (("--label", "name"), "a column"),
        (("--protocol", "horizontal"), "by: masked"),
        (("--protocol", "horizontal", "--aggregation", "masked"), ""),
        (("--asker", "bob"), "who asks"),
    ],
)
def test_check_tries_a_run_against_the_policy(
    options: tuple[str, ...], refusal: str, tmp_path: Path
) -> None:
    rules = (
        '[default]\nhidden_columns = ["name"]\naggregations = ["masked"]\naskers = ["ann", ""]\n'
    )
    (tmp_path / "policy.toml").write_text(rules)
    outcome = run(tmp_path, "check", "--data", "loans", *options)
    assert outcome.exit_code == (1 if refusal else 0)
    assert ("refused: " in outcome.output, "allowed: " in outcome.output) == (
        bool(refusal),
        not refusal,
    )
    assert refusal in " ".join(outcome.output.split())


def test_a_protocol_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    assert run(tmp_path, "check", "--data", "x", "--protocol", "diagonal").exit_code == 2


@pytest.mark.parametrize("command", ["init", "show", "check"])
def test_help_of_every_command_has_an_example(command: str) -> None:
    output = CliRunner().invoke(app, ["party", "policy", command, "--help"]).output
    assert f"Example: fedforest party policy {command}" in " ".join(output.split())
