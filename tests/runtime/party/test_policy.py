"""Policies: what a file may say, where it is wrong, and when it is looked at."""

import os
from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError, PolicyRefusal
from fedforest.runtime.party.policy import ALLOW_EVERYTHING, DataSetRules, Policy, PolicyFile


def write(home: Path, text: str) -> PolicyFile:
    (home / "policy.toml").write_text(text)
    return PolicyFile(home)


def test_without_a_file_the_safe_defaults_hold(tmp_path: Path) -> None:
    rules = PolicyFile(tmp_path).rules("anything")
    assert rules == DataSetRules()
    assert rules.use
    assert rules.min_rows_per_leaf == 5
    assert not rules.complete_model
    assert rules.prediction_rows_per_day == 1_000_000
    assert rules.prediction_rows_per_day_total == 5_000_000


def test_a_policy_of_a_program_allows_everything_unless_it_says_otherwise() -> None:
    assert Policy().rules("anything") == ALLOW_EVERYTHING
    assert Policy(DataSetRules(use=False)).rules("anything") == DataSetRules(use=False)


def test_a_data_set_has_its_own_rules_above_the_default_ones(tmp_path: Path) -> None:
    policy = write(
        tmp_path,
        "[default]\nmin_rows_per_leaf = 20\nalone = false\n"
        '[data.patients]\nmin_rows_per_leaf = 50\nhidden_columns = ["name"]\n',
    )
    assert policy.check() == ["patients"]
    assert policy.rules("visits") == DataSetRules(min_rows_per_leaf=20, alone=False)
    own = DataSetRules(min_rows_per_leaf=50, alone=False, hidden_columns=("name",))
    assert policy.rules("patients") == own


def test_a_changed_file_counts_at_once_and_a_removed_one_no_more(tmp_path: Path) -> None:
    policy = write(tmp_path, "[default]\nmin_rows_per_leaf = 20\n")
    assert policy.rules("x").min_rows_per_leaf == 20
    write(tmp_path, "[default]\nmin_rows_per_leaf = 30\n")
    os.utime(policy.path, ns=(1, 1))  # as if it were another moment, however fast this test is
    assert policy.rules("x").min_rows_per_leaf == 30
    policy.path.unlink()
    assert policy.rules("x") == DataSetRules()


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        (
            "[default]\nmin_rows_per_leaf = 0\n",
            "2:21",
            "is 0; it must be at least 1",
        ),
        ("[default]\n\nuse = 1\n", "3:7", "use: expected true or false, got a whole number"),
        (
            "[default]\nprotocols = ['vertical', 'diagonal']\n",
            "2:26",
            "'diagonal'; it must be one of 'vert",
        ),
        (
            "[default]\n  min_rows_leaf = 5\n",
            "2:3",
            "did you mean 'min_rows_per_leaf'?",
        ),
        (
            "[data.a]\nuse = true\n[data.b]\nepsilon_ceiling = -1\n",
            "4:19",
            "is -1; it must be above 0",
        ),
        ("[defaults]\nuse = true\n", "1:2", "there is no key 'defaults'; did you mean 'default'?"),
        ("[default]\nuse = yes\n", "2:7", "Invalid value"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_column(
    text: str, place: str, reason: str, tmp_path: Path
) -> None:
    policy = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        policy.check()
    assert f"policy.toml:{place}: " in str(caught.value)
    assert reason in str(caught.value)


def test_a_file_that_is_wrong_allows_nothing_and_tells_peers_no_more(tmp_path: Path) -> None:
    policy = write(tmp_path, "[default]\nuse = maybe\n")
    with pytest.raises(PolicyRefusal, match="allows nothing") as caught:
        policy.rules("patients")
    assert str(tmp_path) not in str(caught.value)


def test_hidden_columns_are_those_denied_and_those_not_allowed() -> None:
    names = ["age", "city", "name"]
    assert DataSetRules().hidden(names) == frozenset()
    assert DataSetRules(hidden_columns=("name", "x")).hidden(names) == {"name"}
    assert DataSetRules(columns=("age",)).hidden(names) == {"city", "name"}
    assert DataSetRules(columns=("age", "city"), hidden_columns=("age",)).hidden(names) == {
        "age",
        "name",
    }
