"""Two entries over one table know that they are, whatever they call it."""

from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry, EntryFolder
from fedforest.runtime.party.catalogue.tables import find_table, identify_table, list_sharing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "bank"
    home.mkdir()
    (home / "rows.csv").write_text("x,y\n1,0\n2,1\n")
    return home


def test_a_file_is_one_table_however_its_path_is_written(home: Path) -> None:
    (home / "link.csv").symlink_to(home / "rows.csv")
    paths = ["rows.csv", "./rows.csv", "../bank/rows.csv", str(home / "rows.csv"), "link.csv"]
    found = {identify_table(home, Entry(source=path)) for path in paths}
    assert found == {"file:rows.csv"}  # without the party's folder, which may be moved
    outside = identify_table(home, Entry(source="../rows.csv"))
    assert outside == f"file:{home.parent / 'rows.csv'}"


def test_a_database_has_a_table_by_name_and_one_for_each_query() -> None:
    def named(**entry: str) -> str:
        return identify_table(Path("/bank"), Entry(**entry))  # type: ignore[arg-type] # texts

    assert named(source="d.db", table="Loans") == named(source="d.db", table="loans")
    assert named(source="d.db", table="loans") != named(source="d.db", table="people")
    assert named(uri_env="DB", table="Loans") != named(uri_env="DB", table="loans")
    assert named(uri_env="DB", table="loans") != named(uri_file="DB", table="loans")
    query = named(uri_env="DB", query="SELECT *\n  FROM loans")
    assert query == named(uri_env="DB", query="SELECT * FROM loans") == "$DB?SELECT * FROM loans"
    declared = named(uri_env="DB", query="SELECT id FROM loans", table_identity="$DB#loans")
    assert declared == named(uri_env="DB", table="loans")


def test_data_sets_that_read_one_table_are_found(home: Path) -> None:
    catalogue = Catalogue(home)
    (home / "copy.csv").write_text("x,y\n1,0\n")
    catalogue.add("rows", Entry(source="rows.csv"))
    catalogue.add("again", Entry(source=str(home / "rows.csv"), exclude=["x"]))
    catalogue.add("copy", Entry(source="copy.csv"))
    entries = EntryFolder(home)
    assert list_sharing(entries, "rows") == list_sharing(entries, "again") == ["again", "rows"]
    assert list_sharing(entries, "copy") == ["copy"]
    catalogue.add("declared", Entry(source="copy.csv", table_identity="file:rows.csv"))
    assert list_sharing(entries, "declared") == ["again", "declared", "rows"]
    assert list_sharing(entries, "unknown") == ["unknown"]
    assert catalogue.read("declared").identity.table == "file:rows.csv"


def test_a_data_set_that_is_replaced_stays_of_the_same_table(home: Path) -> None:
    catalogue = Catalogue(home)
    catalogue.add("rows", Entry(source="rows.csv"))
    (home / "moved.csv").write_text("x,y\n1,0\n")
    added = catalogue.add("rows", Entry(source="moved.csv"), replaces=True)
    assert added.identity.table == find_table(catalogue.entries, "rows") == "file:rows.csv"
    catalogue.add("rows", Entry(source="rows.csv"), replaces=True)
    assert catalogue.entries.read("rows").table_identity is None  # it need not be declared
    declared = Entry(source="moved.csv", table_identity="others")
    assert catalogue.add("rows", declared, replaces=True).identity.table == "others"


def test_an_entry_that_cannot_be_read_could_be_of_any_table(home: Path) -> None:
    Catalogue(home).add("rows", Entry(source="rows.csv"))
    (home / "catalogue" / "broken.toml").write_text("source = ")
    with pytest.raises(ConfigurationError, match=r"broken\.toml"):
        list_sharing(EntryFolder(home), "rows")


def test_an_identity_is_not_empty(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="table_identity"):
        Catalogue(home).add("rows", Entry(source="rows.csv", table_identity=" "))
