"""The same rows, whatever they are stored in."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from tests.runtime.party.catalogue.samples import (
    ACTIVE,
    AGES,
    CITIES,
    FILES,
    IDS,
    add_csv,
    write_csv,
    write_duckdb,
    write_parquet,
    write_sqlite,
)

everywhere = pytest.mark.parametrize("write", FILES.values(), ids=FILES)


@everywhere
def test_every_kind_of_file_gives_the_same_columns_and_ids(
    write: Callable[[Path], Entry], tmp_path: Path
) -> None:
    data = Catalogue(tmp_path).add("people", write(tmp_path))
    assert data.ids().tolist() == IDS
    assert data.columns.to_pydict() == {"age": AGES, "city": CITIES, "active": ACTIVE}
    assert data.features(["active"]).names == ("age", "city")
    assert data.n_rows == 3


@pytest.mark.parametrize("write", [write_duckdb, write_sqlite])
def test_a_database_in_a_file_is_read_again_for_every_run_and_only_then(
    write: Callable[[Path], Entry], tmp_path: Path
) -> None:
    catalogue = Catalogue(tmp_path)
    catalogue.add("people", write(tmp_path))
    first = catalogue.read("people")
    assert catalogue.read("people") is first
    catalogue.renew("people")
    assert catalogue.read("people") is not first


def test_rows_that_are_still_in_a_log_beside_the_database_are_read(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    catalogue.add("people", write_sqlite(tmp_path))
    assert catalogue.read("people").n_rows == 3
    with closing(sqlite3.connect(tmp_path / "people.db")) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("INSERT INTO people VALUES (10, 1, 'Ulm', 0)")
        connection.commit()
        catalogue.renew("people")
        assert catalogue.read("people").n_rows == 4


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_data_set_read_again_is_the_same_object_until_its_file_changes(
    write: Callable[[Path], Entry], tmp_path: Path
) -> None:
    catalogue, entry = Catalogue(tmp_path), write(tmp_path)
    catalogue.add("people", entry)
    first = catalogue.read("people")
    catalogue.renew("people")
    assert catalogue.read("people") is first
    assert entry.source is not None
    os.utime(tmp_path / entry.source, ns=(1, 1))
    assert catalogue.read("people") is not first


@pytest.mark.parametrize("write", [write_duckdb, write_sqlite])
def test_a_query_of_a_database_chooses_rows_and_columns(
    write: Callable[[Path], Entry], tmp_path: Path
) -> None:
    query = "SELECT id, age + 1 AS older FROM people WHERE age IS NOT NULL ORDER BY id"
    entry = Entry(source=write(tmp_path).source, query=query, id=["id"])
    data = Catalogue(tmp_path).add("older", entry)
    assert data.columns.to_pydict() == {"older": [32, 55]}


@pytest.mark.parametrize("write", [write_duckdb, write_sqlite])
def test_a_query_that_would_write_is_refused_and_changes_nothing(
    write: Callable[[Path], Entry], tmp_path: Path
) -> None:
    people = write(tmp_path)
    entry = Entry(source=people.source, query="DELETE FROM people RETURNING id, age")
    with pytest.raises(DataError, match="cannot be read"):
        Catalogue(tmp_path).add("gone", entry)
    assert Catalogue(tmp_path).add("people", people).n_rows == 3


def test_a_table_name_is_quoted_and_cannot_become_a_statement(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "odd.db")) as connection:
        connection.execute('CREATE TABLE "a "" b" AS SELECT 1 AS x')
    data = Catalogue(tmp_path).add("odd", Entry(source="odd.db", table='a " b'))
    assert data.columns.to_pydict() == {"x": [1]}


def test_columns_of_sqlite_with_several_types_are_read_as_text(tmp_path: Path) -> None:
    write_sqlite(tmp_path)
    query = "SELECT 1 AS x UNION ALL SELECT 'one'"
    data = Catalogue(tmp_path).add("mixed", Entry(source="people.db", query=query))
    assert sorted(data.columns.to_pydict()["x"]) == ["1", "one"]


def test_overridden_categories_and_ids_of_csv_files_keep_their_leading_zeros(
    tmp_path: Path,
) -> None:
    entry = Entry(source="t.csv", id=["id"], types={"zip": "category"})
    data = add_csv(tmp_path, "id,zip,n\n007,01234,05\n", entry).read("t")
    assert data.ids().tolist() == [b"007"]
    assert data.columns.to_pydict() == {"zip": ["01234"], "n": [5]}


def test_values_that_stand_for_missing_ones_are_missing_in_text_and_numbers(
    tmp_path: Path,
) -> None:
    entry = Entry(source="t.csv", missing=["NA", -999])
    data = add_csv(tmp_path, "a,b,c\nNA,NA,-999.0\n3,x,1.5\n", entry).read("t")
    assert data.columns.to_pydict() == {"a": [None, 3], "b": [None, "x"], "c": [None, 1.5]}


def test_missing_values_of_parquet_files_are_found_by_value(tmp_path: Path) -> None:
    table = pyarrow.table({"a": [-999, 3], "b": ["", "x"], "c": pyarrow.array(["NA", "y"])})
    table = table.set_column(2, "c", table.column("c").dictionary_encode())
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    entry = Entry(source="t.parquet", missing=["", "NA", -999])
    data = Catalogue(tmp_path).add("t", entry)
    assert data.columns.to_pydict() == {"a": [None, 3], "b": [None, "x"], "c": [None, "y"]}


def test_without_being_told_only_empty_fields_are_missing(tmp_path: Path) -> None:
    data = add_csv(tmp_path, 'country\nNA\n""\nDE\n', Entry(source="t.csv")).read("t")
    assert data.columns.to_pydict() == {"country": ["NA", None, "DE"]}


def test_numbers_can_be_categories_and_text_can_be_numbers(tmp_path: Path) -> None:
    table = pyarrow.table({"code": [3, 1, 3], "amount": ["1.5", None, "2"]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    entry = Entry(source="t.parquet", types={"code": "category", "amount": "number"})
    features = Catalogue(tmp_path).add("t", entry).features().load()
    code, amount = features.columns
    assert not isinstance(code, np.ndarray)
    assert code.values == (3, 1)
    assert isinstance(amount, np.ndarray)
    assert np.array_equal(amount, [1.5, np.nan, 2.0], equal_nan=True)


def test_text_that_is_no_number_is_refused_without_quoting_it(tmp_path: Path) -> None:
    entry = Entry(source="t.csv", types={"amount": "number"})
    with pytest.raises(DataError, match=r"'amount'.*--missing") as caught:
        add_csv(tmp_path, "amount\nsecret-value\n3\n", entry)
    assert "secret-value" not in str(caught.value)


def test_dates_are_refused_until_their_owner_says_what_they_are(tmp_path: Path) -> None:
    text = "day,moment\n1970-01-11,1970-01-01 00:01:30\n"
    with pytest.raises(DataError, match=r"'day'.*--exclude"):
        add_csv(tmp_path, text, Entry(source="t.csv"))
    entry = Entry(source="t.csv", types={"day": "number", "moment": "number"})
    assert add_csv(tmp_path, text, entry).read("t").columns.to_pydict() == {
        "day": [10],
        "moment": [90.0],
    }


def test_columns_that_are_left_out_are_not_there(tmp_path: Path) -> None:
    entry = Entry(source="t.csv", exclude=["name", "born"])
    data = add_csv(tmp_path, "name,born,x\nAda,1815-12-10,1\n", entry).read("t")
    assert data.columns.column_names == ["x"]
    with pytest.raises(DataError, match="no column 'name'"):
        data.column("name")


def test_an_id_is_neither_a_feature_nor_a_label(tmp_path: Path) -> None:
    data = add_csv(tmp_path, "id,x\n1,2\n", Entry(source="t.csv", id=["id"])).read("t")
    assert data.features().names == ("x",)
    with pytest.raises(DataError, match="no column 'id'"):
        data.column("id")


def test_rows_can_be_taken_in_any_order_with_their_ids(tmp_path: Path) -> None:
    entry = Entry(source="t.csv", id=["id"])
    data = add_csv(tmp_path, "id,x\na,1\nb,2\nc,3\n", entry).read("t")
    taken = data.take(np.array([2, 0]))
    assert taken.ids().tolist() == [b"c", b"a"]
    assert taken.column("x").tolist() == [3, 1]


def test_a_column_that_the_entry_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'key'"):
        add_csv(tmp_path, "x\n1\n", Entry(source="t.csv", id=["key"]))


def test_a_file_that_is_nothing_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.xls").write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigurationError, match="convert it"):
        Catalogue(tmp_path).add("t", Entry(source="t.xls"))


def test_a_file_that_is_not_there_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        Catalogue(tmp_path).add("t", Entry(source="t.duckdb", table="t"))
