"""Entries, the columns that were noted when a data set was added, and what the owner is shown."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry, EntryFolder
from fedforest.runtime.party.catalogue.profile import preview_rows, profile_columns
from fedforest.transport.error_table import error_of_party, refuse
from tests.runtime.party.catalogue.samples import add_csv, write_csv

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(
    query=texts,
    ids=st.lists(texts, unique=True, max_size=3),
    types=st.dictionaries(texts, st.sampled_from(["number", "category"]), max_size=3),
    missing=st.lists(texts | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9), max_size=3),
)
def test_an_entry_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    query: str,
    ids: list[str],
    types: object,
    missing: object,
) -> None:
    folder = EntryFolder(tmp_path_factory.mktemp("home"))
    fields = {"uri_env": "DB", "query": query, "id": ids, "types": types, "missing": missing}
    entry = Entry(**fields)  # type: ignore[arg-type] # drawn
    try:
        entry.check()
    except ConfigurationError:
        return  # an id with a type, which is refused elsewhere
    folder.write("t", entry)
    assert folder.read("t") == entry


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a" * 65, "a b", "é"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot name a data set"):
        catalogue.add(name, write_csv(tmp_path))
    with pytest.raises(DataError, match="no data set"):
        catalogue.read(name)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Entry(), "one place"),
        (Entry(source="a.csv", uri_env="DB"), "one place"),
        (Entry(source="postgresql://me:secret@db/x"), "may hold a password"),
        (Entry(uri_env="DB"), "a table or a query"),
        (Entry(source="a.db", table="t", query="SELECT 1"), "not both"),
        (Entry(source="a.csv", id=["k"], exclude=["k"]), "'k' is an id and left out"),
        (Entry(source="a.csv", id=["k", "k"]), "twice"),
        (Entry(source="a.csv", id=["k"], types={"k": "number"}), "no feature"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(
    entry: Entry, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        Catalogue(tmp_path).add("t", entry)
    assert "secret" not in str(caught.value)


def test_an_entry_with_an_unknown_field_is_refused_and_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalogue").mkdir()
    (tmp_path / "catalogue" / "t.toml").write_text('source = "a.csv"\ntabel = "x"\n')
    with pytest.raises(ConfigurationError, match=r"t\.toml.*tabel"):
        Catalogue(tmp_path).read("t")


def test_entries_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    Catalogue(tmp_path).add("people", write_csv(tmp_path))
    for path in (tmp_path / "catalogue").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_name_is_given_twice_only_to_replace(tmp_path: Path) -> None:
    catalogue, entry = Catalogue(tmp_path), write_csv(tmp_path)
    catalogue.add("people", entry)
    with pytest.raises(ConfigurationError, match="--replace"):
        catalogue.add("people", entry)
    catalogue.add("people", entry, replaces=True)
    assert catalogue.entries.names() == ["people"]


def test_a_data_set_that_was_removed_is_gone_and_its_file_is_not(tmp_path: Path) -> None:
    catalogue, entry = Catalogue(tmp_path), write_csv(tmp_path)
    catalogue.add("people", entry)
    catalogue.read("people")
    catalogue.entries.remove("people")
    with pytest.raises(DataError, match="no data set 'people'"):
        catalogue.read("people")
    assert (tmp_path / "people.csv").exists()
    assert list((tmp_path / "catalogue").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("x\n1\n", "column 'city' is gone"),
        ("x,city,salary\n1,Ulm,9\n", "column 'salary' is new"),
        ("x,city\nmany,Ulm\n", "column 'x' was a number and is a category"),
    ],
)
def test_a_changed_column_stops_runs_until_the_owner_accepts_it(
    text: str, change: str, tmp_path: Path
) -> None:
    entry = Entry(source="t.csv")
    catalogue = add_csv(tmp_path, "x,city\n1,Ulm\n", entry)
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=change) as caught:
        catalogue.read("t")
    assert "--replace" in str(caught.value)
    told = str(error_of_party(refuse(1, caught.value, hides_names=True), "bank"))
    assert not any(name in told for name in ("city", "salary", "'x'"))
    catalogue.add("t", entry, replaces=True)
    assert catalogue.read("t").n_rows == 1


def test_wider_numbers_more_rows_and_columns_left_out_are_no_change(tmp_path: Path) -> None:
    entry = Entry(source="t.csv", exclude=["comment"])
    catalogue = add_csv(tmp_path, "x,comment\n1,a\n", entry)
    (tmp_path / "t.csv").write_text("x\n1\n2.5\n\n")
    assert catalogue.read("t").column("x").tolist() == [1.0, 2.5]


def test_of_an_entry_written_by_hand_the_columns_found_first_are_noted(tmp_path: Path) -> None:
    (tmp_path / "catalogue").mkdir()
    (tmp_path / "catalogue" / "t.toml").write_text('source = "t.csv"\n')
    (tmp_path / "t.csv").write_text("x\n1\n")
    catalogue = Catalogue(tmp_path)
    assert catalogue.read("t").n_rows == 1
    assert catalogue.schema("t") == {"x": "number"}
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="'y' is new"):
        catalogue.read("t")


def test_a_damaged_note_of_columns_is_no_permission(tmp_path: Path) -> None:
    catalogue = add_csv(tmp_path, "x\n1\n", Entry(source="t.csv"))
    catalogue.entries.schema_path("t").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        catalogue.read("t")


def test_ids_are_checked_when_a_data_set_is_added(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="empty in some rows"):
        add_csv(tmp_path, "id,x\na,1\n,2\n", Entry(source="t.csv", id=["id"]))
    assert not (tmp_path / "catalogue").exists()


def test_without_an_id_column_there_are_no_ids(tmp_path: Path) -> None:
    data = add_csv(tmp_path, "x\n1\n", Entry(source="t.csv")).read("t")
    with pytest.raises(DataError, match="--id COLUMN"):
        data.ids()


def test_a_profile_tells_of_every_column_what_its_owner_wants_to_know(tmp_path: Path) -> None:
    entry = Entry(source="t.csv", id=["id"])
    text = "id,age,city\na,10,Ulm\nb,,Bonn\nc,30,Ulm\nd,20,\n"
    key, age, city = profile_columns(add_csv(tmp_path, text, entry).read("t"))
    assert (key.name, key.kind, key.n_distinct, key.missing_share) == ("id", "id", 4, 0.0)
    assert (age.kind, age.n_distinct, age.missing_share) == ("number", 3, 0.25)
    assert (age.smallest, age.largest, age.mean) == (10.0, 30.0, 20.0)
    assert (city.kind, city.top, city.missing_share) == (
        "category",
        (("Ulm", 2), ("Bonn", 1)),
        0.25,
    )


def test_a_preview_shows_the_first_rows(tmp_path: Path) -> None:
    entry = Entry(source="t.csv", id=["id"])
    data = add_csv(tmp_path, "id,x\na,1\nb,2\n", entry).read("t")
    assert preview_rows(data, 1) == [{"id": "a", "x": 1}]
    assert json.dumps(preview_rows(data))
