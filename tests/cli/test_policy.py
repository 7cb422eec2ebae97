"""Policies from the command line."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedforest.cli.main import app, app_entry
from fedforest.errors import ConfigurationError
from fedforest.runtime.party.approval import spending_of_labels
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.policy import DataSetRules, PolicyFile
from fedforest.runtime.party.policy_template import TEMPLATE
from fedforest.runtime.party.spending import Budgets


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["party", "policy", *arguments, "--home", str(home)])


def test_init_writes_a_file_that_changes_nothing_and_never_over_another(tmp_path: Path) -> None:
    assert run(tmp_path, "init").exit_code == 0
    assert PolicyFile(tmp_path).rules("any") == DataSetRules()
    assert run(tmp_path, "init").exit_code == 1


def test_the_lines_that_init_comments_out_are_rules_that_can_be_read(tmp_path: Path) -> None:
    heading, _, body = TEMPLATE.partition("\n\n")
    assert heading.startswith("#")
    (tmp_path / "policy.toml").write_text(body.replace("\n# ", "\n"))
    policy = PolicyFile(tmp_path)
    assert policy.rules("other") == DataSetRules(
        askers=("ann", "bob"),
        most_row_trees=1_000_000_000,
        most_memory_bytes=4_000_000_000,
        most_stored_bytes=4_000_000_000,
        columns=("age", "city"),
        label_columns=("risk",),
        weight_columns=("weight",),
        standing_askers=("anna",),
        validation=True,
    )
    assert policy.rules("patients").min_rows_per_leaf == 20
    assert all(f"# {rule} = " in body for rule in DataSetRules.__struct_fields__)


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


VERTICAL = """
protocol = "vertical"
[parties]
bank = "loans"
shop = "sales"
[label]
party = "bank"
column = "COLUMN"
[parameters]
min_samples_leaf = LEAF
"""
HORIZONTAL = """
protocol = "horizontal"
aggregation = "AGGREGATION"
parties = { bank = "loans", shop = "sales" }
label = { column = "paid" }
parameters = { min_samples_leaf = 5 }
"""


def vertical(column: str = "paid", leaf: float = 5) -> str:
    return VERTICAL.replace("COLUMN", column).replace("LEAF", str(leaf))


@pytest.mark.parametrize(
    ("file", "asker", "refusal"),
    [
        (vertical(), "ann", ""),
        (vertical(leaf=3), "ann", "at least 5 rows"),
        (vertical(leaf=0.5), "ann", "at least 5 rows"),  # half of two
        (vertical(column="name"), "ann", "column 'name' is not for use"),
        (HORIZONTAL.replace("AGGREGATION", "plain"), "ann", "by: masked"),
        (HORIZONTAL.replace("AGGREGATION", "Masked"), "ann", ""),
        (vertical(), "bob", "who asks"),
    ],
)
def test_check_tries_a_run_against_the_policy(
    file: str, asker: str, refusal: str, tmp_path: Path
) -> None:
    rules = '[default]\nhidden_columns = ["name"]\naggregations = ["masked"]\naskers = ["ann"]\n'
    (tmp_path / "policy.toml").write_text(rules)
    (tmp_path / "loans.csv").write_text("amount,paid,name\n1,0,a\n2,1,b\n")
    Catalogue(tmp_path).add("loans", Entry(source="loans.csv"))
    (tmp_path / "run.toml").write_text(file)
    path = str(tmp_path / "run.toml")
    outcome = run(tmp_path, "check", path, "--asker", asker, "--party", "bank")
    assert outcome.exit_code == (1 if refusal else 0), outcome.output
    assert ("refused: " in outcome.output, "allowed: " in outcome.output) == (
        bool(refusal),
        not refusal,
    )
    assert refusal in " ".join(outcome.output.split())


def test_check_names_every_rule_that_a_run_breaks(tmp_path: Path) -> None:
    rules = '[default]\nhidden_columns = ["name"]\nmost_trees = 2\naskers = ["ann"]\n'
    (tmp_path / "policy.toml").write_text(rules)
    (tmp_path / "loans.csv").write_text("amount,paid,name\n1,0,a\n2,1,b\n")
    Catalogue(tmp_path).add("loans", Entry(source="loans.csv"))
    (tmp_path / "run.toml").write_text(vertical(column="name", leaf=3))
    path = str(tmp_path / "run.toml")
    told = json.loads(
        run(tmp_path, "check", path, "--asker", "bob", "--party", "bank", "--json").output
    )
    assert not told["allowed"]
    for broken in ("who asks", "column 'name'", "at least 5 rows", "more than 2 trees"):
        assert sum(broken in reason for reason in told["reasons"]) == 1, broken
    assert len(told["reasons"]) == 4


def test_a_party_that_takes_no_part_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(vertical())
    outcome = run(tmp_path, "check", str(tmp_path / "run.toml"), "--party", "clinic")
    assert isinstance(outcome.exception, ConfigurationError)
    assert "'clinic' takes no part" in str(outcome.exception)


@pytest.mark.parametrize("command", ["init", "show", "check"])
def test_help_of_every_command_has_an_example(command: str) -> None:
    output = CliRunner().invoke(app, ["party", "policy", command, "--help"]).output
    assert f"Example: fedforest party policy {command}" in " ".join(output.split())
