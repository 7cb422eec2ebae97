"""Rows that an owner erases: out of every entry over their table, and what had used them."""

from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow
import pyarrow.csv
import pytest

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.retention.erasure import ErasureReport, RowErasure
from fedforest.runtime.recovery.model_folder import StoredModels
from fedforest.runtime.trainings.origins import Origin

# Zeros in front, spaces, and an id that looks like another one's number.
IDS = ["007", "7", " 08", "x,y", "Ä"]
MODEL = "ab" * 16


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One CSV file, read by three entries: by id, by another column, and without one."""
    table = pyarrow.table({"id": IDS, "other": ["1", "2", "3", "4", "5"], "x": [1, 2, 3, 4, 5]})
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")
    catalogue = Catalogue(tmp_path)
    catalogue.add("people", Entry(source="people.csv", id=["id"]))
    catalogue.add("by-other", Entry(source="people.csv", id=["other"], exclude=["id"]))
    catalogue.add("bare", Entry(source="people.csv"))
    return tmp_path


def erase(home: Path, *ids: str, data: str = "people") -> ErasureReport:
    erasure = RowErasure(home, data, pyarrow.table({"id": list(ids)}))
    report = erasure.report()
    erasure.carry_out()
    return report


def values(home: Path, name: str) -> list[Any]:
    found: list[Any] = Catalogue(home).read(name).column("x").tolist()
    return found


def keep_model(home: Path, model: str, *origins: Origin) -> None:
    files = StoredModels(home / "models")
    files.write(model, msgspec.json.encode(origins), "origins")
    files.write(model, b"model")


def test_rows_are_gone_from_every_entry_over_their_table(home: Path) -> None:
    running = Catalogue(home)
    before = running.read("people")
    assert before.column("x").tolist() == [1, 2, 3, 4, 5]
    report = erase(home, "007", "x,y", "nobody")
    assert (report.n_ids, report.n_rows, report.unreachable) == (3, 2, [])
    assert report.data_sets == ["bare", "by-other", "people"]
    for name in report.data_sets:
        assert values(home, name) == [2, 3, 5]
    now = running.read("people")  # of a process that had read it before
    assert (now.column("x").tolist(), now.n_erased) == ([2, 3, 5], 2)
    assert before.column("x").tolist() == [1, 2, 3, 4, 5]


def test_erasures_add_up_and_no_file_holds_an_id(home: Path) -> None:
    erase(home, "007")
    assert erase(home, "007").n_rows == 0
    erase(home, "x,y")
    assert values(home, "by-other") == [2, 3, 5]
    written = b"".join(path.read_bytes() for path in (home / "erased").iterdir())
    assert b"007" not in written
    assert b"x,y" not in written


def test_ids_are_found_by_the_rules_of_their_data_set(tmp_path: Path) -> None:
    rules = {"case": "fold", "numbers": "plain"}
    pyarrow.csv.write_csv(
        pyarrow.table({"id": ["007", "Anna", "B"], "x": [1, 2, 3]}), tmp_path / "people.csv"
    )
    entry = msgspec.convert({"source": "people.csv", "id": ["id"], "id_rules": rules}, Entry)
    Catalogue(tmp_path).add("people", entry)
    assert erase(tmp_path, "7", " ANNA").n_rows == 2
    assert values(tmp_path, "people") == [3]


def test_rows_of_a_query_without_their_id_are_refused_and_with_it_found(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "base.duckdb")) as base:
        base.execute("CREATE TABLE people AS SELECT range AS id, range * 10 AS x FROM range(5)")
    catalogue = Catalogue(tmp_path)
    entry = Entry(source="base.duckdb", table_identity="people", table="people", id=["id"])
    querying = msgspec.structs.replace(entry, table=None, id=[])
    catalogue.add("people", entry)
    for name, query in {"whole": "x, id FROM people WHERE x > 0", "blind": "x FROM people"}.items():
        catalogue.add(name, msgspec.structs.replace(querying, query=f"SELECT {query}"))
    report = erase(tmp_path, "3")
    assert (report.n_rows, report.unreachable) == (1, ["blind"])
    assert values(tmp_path, "people") == [0, 10, 20, 40]
    assert values(tmp_path, "whole") == [10, 20, 40]
    with pytest.raises(DataError, match="no column by which to find them"):
        catalogue.read("blind")


def test_models_are_told_apart_by_what_is_known_of_their_rows(home: Path) -> None:
    catalogue = Catalogue(home)
    catalogue.add("elsewhere", Entry(source="people.csv", table_identity="other people"))
    people = catalogue.read("people")
    alignments = Alignments(home / "alignments")
    with_it, without_it, lost = ("1" * 32, "2" * 32, "3" * 32)
    rows = pyarrow.array([0, 1]).to_numpy(), pyarrow.array([1, 2]).to_numpy()
    alignments.keep(with_it, "people", people.own_ids(), rows[0])
    alignments.keep(without_it, "people", people.own_ids(), rows[1])
    cases = {
        "a" * 32: [Origin("a" * 32, "people", "label")],
        "b" * 32: [Origin("b" * 32, "people", alignment=with_it)],
        "c" * 32: [Origin("c" * 32, "people", alignment=without_it)],
        "d" * 32: [Origin("d" * 32, "people", alignment=lost)],
        "e" * 32: [Origin("e" * 32, "elsewhere")],
        "f" * 32: [Origin("a" * 32, "by-other"), Origin("f" * 32, "elsewhere")],
    }
    for model, origins in cases.items():
        keep_model(home, model, *origins)
    StoredModels(home / "models").withdraw("b" * 32, "party bank")
    report = erase(home, "007")
    found = {model.model[0]: model for model in report.models}
    assert {name: model.is_certain for name, model in found.items()} == {
        "a": True,
        "b": True,
        "d": False,
        "f": True,
    }
    assert report.owed == ["a" * 32, "d" * 32, "f" * 32]
    assert report.alignments == [with_it]
    assert alignments.names() == [without_it]
    later = {model.model[0]: model.is_certain for model in erase(home, "nobody").models}
    assert later == dict.fromkeys("abcdf", False)  # the ids have changed: it cannot be told


def test_rows_without_an_id_column_or_ids_are_refused(home: Path) -> None:
    with pytest.raises(DataError, match="no id column"):
        erase(home, "007", data="bare")
    with pytest.raises(ConfigurationError, match="no id is given"):
        erase(home)


def test_a_damaged_file_of_erasures_lets_no_row_through(home: Path) -> None:
    erase(home, "007")
    [path] = (home / "erased").iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match="is damaged"):
        Catalogue(home).read("people")
