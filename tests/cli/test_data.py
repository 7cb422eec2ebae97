"""The catalogue from the command line."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedforest.cli.main import app, app_entry
from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry, EntryFolder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    folder.mkdir()
    (folder / "people.csv").write_text("id,age,city\n007,31,Ulm\n008,NA,Bonn\n")
    return folder


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["party", "data", *arguments, "--home", str(home)])


def add_people(home: Path, *options: str) -> Result:
    path = str(home / "people.csv")
    return run(home, "add", "people", path, "--id", "id", "--missing", "NA", *options)


def test_a_data_set_is_added_listed_shown_and_removed(home: Path) -> None:
    added = add_people(home)
    assert added.exit_code == 0, added.output
    assert "2 rows" in added.output
    assert json.loads(run(home, "list", "--json").output) == [
        {
            "name": "people",
            "place": "people.csv",
            "table_identity": "file:people.csv",
            "table": "",
            "id": ["id"],
            "id_rules": {
                "trim": True,
                "case": "keep",
                "unicode": "NFC",
                "numbers": "keep",
                "duplicates": "leave-out",
            },
            "n_columns": 3,
        }
    ]
    shown = run(home, "show", "people").output
    assert "31 to 31, mean 31" in " ".join(shown.split())
    assert "First rows" in shown
    assert run(home, "remove", "people", "--quiet").output == ""
    assert json.loads(run(home, "list", "--json").output) == []
    assert "no data set yet" in run(home, "list").output


def test_the_profile_is_told_to_programs_as_json(home: Path) -> None:
    add_people(home)
    told = json.loads(run(home, "show", "people", "--json", "--rows", "1").output)
    assert told["n_rows"] == 2
    assert [column["kind"] for column in told["columns"]] == ["id", "number", "category"]
    assert told["preview"] == [{"id": "007", "age": 31, "city": "Ulm"}]


def test_every_option_finds_its_way_into_the_entry(home: Path) -> None:
    options = ("--type", "age=category", "--exclude", "city", "--missing", "-999")
    named = ("--table-identity", "customers")
    assert add_people(home, *options, *named, "--quiet").output == ""
    assert EntryFolder(home).read("people") == Entry(
        source="people.csv",
        id=["id"],
        types={"age": "category"},
        table_identity="customers",
        missing=["NA", -999],
        exclude=["city"],
    )


def test_a_file_outside_the_folder_is_kept_with_its_whole_path(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "other.csv"
    outside.write_text("x\n1\n")
    run(home, "add", "other", str(outside))
    assert EntryFolder(home).read("other").source == str(outside)


@pytest.mark.parametrize("kind", ["age", "age=text", "=number"])
def test_a_kind_of_column_that_there_is_not_is_wrong_usage(home: Path, kind: str) -> None:
    assert add_people(home, "--type", kind).exit_code == 2


def test_a_password_in_the_command_is_refused_and_not_repeated(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = "postgresql://me:open-sesame@db/people"
    command = ["fedforest", "party", "data", "add", "people", uri, "--table", "t"]
    monkeypatch.setattr(sys, "argv", [*command, "--home", str(home)])
    with pytest.raises(SystemExit) as stop:
        app_entry()
    error = capsys.readouterr().err
    assert stop.value.code == 1
    assert "uri_env" in error
    assert "open-sesame" not in error


@pytest.mark.parametrize("command", ["add", "list", "show", "remove"])
def test_help_of_every_command_has_an_example(command: str) -> None:
    output = CliRunner().invoke(app, ["party", "data", command, "--help"]).output
    assert "Example: fedforest party data" in " ".join(output.split())


def test_rules_of_ids_are_kept_and_shared_ids_are_told(home: Path) -> None:
    (home / "people.csv").write_text("id,age\nAnna,31\nanna,32\n007,33\n")
    rules = ("--id-case", "fold", "--id-numbers", "plain", "--id-duplicates", "first")
    added = add_people(home, *rules)
    assert added.exit_code == 0, added.output
    told = " ".join(added.output.split())
    assert "2 rows share an id with another; an alignment takes the first of each" in told
    kept = EntryFolder(home).read("people")
    assert 'id_rules = { "case" = "fold"' in (home / "catalogue" / "people.toml").read_text()
    assert (kept.id_rules.case, kept.id_rules.numbers) == ("fold", "plain")
    assert Catalogue(home).read("people").own_ids() == [b"anna", b"", b"7"]
    again = add_people(home, "--json", "--replace", *rules)
    assert json.loads(again.output) == {"name": "people", "rows": 3, "rows_that_share_an_id": 2}


def test_shared_ids_are_refused_if_the_owner_wants_it(home: Path) -> None:
    (home / "people.csv").write_text("id,age\n1,31\n1,32\n")
    refused = add_people(home, "--id-duplicates", "refuse")
    assert isinstance(refused.exception, DataError)
    assert "2 rows that share an id" in str(refused.exception)
