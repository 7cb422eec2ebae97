"""What the site takes from the code is complete: keys have a meaning, errors have a cure."""

import re

import pytest

from docs.book import api, command_line, diagrams, errors, messages, toml_files
from docs.book.pages import GENERATORS
from fedforest.error_texts import STATED, TEXTS
from fedforest.errors import FederationError
from fedforest.runtime.party.policy import DataSetRules
from tests.cli.test_help import list_commands

TOML = (
    "run.toml",
    "policy.toml",
    "coordinator.toml",
    "party.toml",
    "profile.toml",
    "catalogue entry",
)


@pytest.mark.parametrize("name", TOML)
def test_every_key_of_a_toml_file_has_a_type_a_default_and_a_meaning(name: str) -> None:
    text = GENERATORS[name]()
    rows = re.findall(r"^\| (`.+) \|$", text, flags=re.MULTILINE)
    assert rows
    assert [row for row in rows if any(not cell.strip() for cell in row.split(" | "))] == []


def test_the_rules_of_a_policy_are_those_that_are_read() -> None:
    keys = re.findall(r"^\| `(\w+)`", toml_files.describe_policy(), flags=re.MULTILINE)
    assert keys == list(DataSetRules.__struct_fields__)


def test_types_are_told_in_words_of_toml() -> None:
    table = toml_files.describe_policy()
    assert "| `min_rows_per_leaf` | whole number from 1 | `5` |" in table
    assert "| `epsilon_ceiling` | number above 0 | none |" in table


def test_every_command_is_told_with_its_options() -> None:
    text = command_line.describe_commands()
    for words in list_commands():
        assert re.search(rf"^#+ fedforest {' '.join(words)}$", text, flags=re.MULTILINE)
    assert "| `--id-case` | `keep` |" in text


def test_every_class_of_errors_has_a_cause_and_a_cure() -> None:
    kinds = errors.error_classes()
    assert set(kinds.values()) == all_subclasses(FederationError)
    assert errors.describe_classes().count("\n") == len(kinds) + 1


def all_subclasses(kind: type[FederationError]) -> set[type[FederationError]]:
    direct = {inner for inner in kind.__subclasses__() if inner.__module__ == kind.__module__}
    return direct.union(*map(all_subclasses, direct))


def test_every_error_with_a_code_is_told_and_none_shows_braces() -> None:
    text = errors.describe_texts()
    told = re.findall(r"^\| `([\w.]+)`", text, flags=re.MULTILINE)
    assert set(told) == set(TEXTS) - {STATED}
    assert "{" not in text


def test_every_message_says_what_it_reveals() -> None:
    kinds = [kind for requests in messages.protocol_messages().values() for kind in requests]
    assert len(kinds) > 30
    assert [kind for kind in kinds if not kind.reveals or not kind.reply.reveals] == []


def test_every_public_class_and_method_is_documented() -> None:
    for name, kind in api.public_classes().items():
        assert kind.__doc__, name
        missing = [m for m in api.public_methods(kind) if not getattr(kind, m).__doc__]
        assert missing == [], name


def test_a_level_of_the_drawn_training_takes_two_exchanges() -> None:
    drawing = diagrams.draw_vertical()
    kinds = re.findall(r">(\w+) <tspan", drawing)
    assert kinds[:2] == ["BinColumns", "ColumnsBinned"]
    assert kinds.count("FindSplits") == kinds.count("ApplySplits") == 2  # of two levels


def test_masked_counts_are_what_the_drawn_horizontal_training_sends() -> None:
    kinds = re.findall(r">(\w+) <tspan", diagrams.draw_horizontal())
    assert kinds.count("ProposeThresholds") == 2
    assert "CountMasked" in kinds
    assert "Count" not in kinds
