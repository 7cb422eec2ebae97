"""Columns that stay on the disk: the same data set as the one in memory."""

import gc
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.batches import COPIES, find_csv_types, remove_copies
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.stored_columns import StoredColumns
from fedforest.runtime.party.data_sets import DataSet
from fedforest.tree.table.bins import fit_bins
from tests.tree.table.test_pieces import contents

N_ROWS = 3_000  # of which the smallest pieces have 1,024
SMALL = 1 << 10  # bytes: every table is larger


def make_table() -> pyarrow.Table:
    rng = np.random.default_rng(0)
    count = rng.integers(0, 90, N_ROWS)
    return pyarrow.table(
        {
            "id": pyarrow.array(np.arange(N_ROWS) + 7),
            "amount": pyarrow.array(rng.standard_normal(N_ROWS), mask=rng.random(N_ROWS) < 0.1),
            # whole numbers of which the first piece lacks none
            "count": pyarrow.array(count, mask=np.arange(N_ROWS) > 2_500),
            "city": pyarrow.array([["Ulm", "Bonn", None][i] for i in rng.integers(0, 3, N_ROWS)]),
            "late": pyarrow.array([None] * (N_ROWS - 2) + ["x", "y"]),  # known from the end only
            "label": pyarrow.array(rng.integers(0, 3, N_ROWS)),
        }
    )


def write_csv(folder: Path) -> Entry:
    pyarrow.csv.write_csv(make_table(), folder / "people.csv")
    return Entry(source="people.csv", id=["id"])


def write_parquet(folder: Path) -> Entry:
    pyarrow.parquet.write_table(make_table(), folder / "people.parquet", row_group_size=700)
    return Entry(source="people.parquet", id=["id"])


def write_duckdb(folder: Path) -> Entry:
    people = make_table()
    with duckdb.connect(str(folder / "people.db")) as connection:
        connection.register("given", people)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return Entry(source="people.db", table="people", id=["id"])


def write_sqlite(folder: Path) -> Entry:
    with closing(sqlite3.connect(folder / "people.db")) as connection:
        names = make_table().column_names
        connection.execute(f"CREATE TABLE people ({', '.join(names)})")
        rows = [tuple(row.values()) for row in make_table().to_pylist()]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    return Entry(source="people.db", table="people", id=["id"])


SOURCES = {
    "CSV": write_csv,
    "Parquet": write_parquet,
    "DuckDB": write_duckdb,
    "SQLite": write_sqlite,
}


def open_both(folder: Path, write: Callable[[Path], Entry]) -> tuple[DataSet, DataSet]:
    """The data set on the disk, and in memory."""
    entry = write(folder)
    stored = Catalogue(folder, SMALL).add("people", entry)
    return stored, Catalogue(folder).read("people")


def assert_equal(stored: DataSet, loaded: DataSet) -> None:
    assert isinstance(stored.columns, StoredColumns)
    assert stored.n_rows == loaded.n_rows
    own, expected = stored.features(["label"]), loaded.features(["label"])
    assert own.names == expected.names
    bins = fit_bins(own, seed=3)
    assert contents(bins) == contents(fit_bins(expected, seed=3))
    np.testing.assert_array_equal(bins.transform(own), bins.transform(expected))
    for name in ("label", "city", "count"):
        values, wanted = stored.column(name), loaded.column(name)
        assert values.dtype == wanted.dtype
        np.testing.assert_array_equal(values, wanted)
    assert stored.own_ids() == loaded.own_ids()


@pytest.mark.parametrize("write", SOURCES.values(), ids=SOURCES)
def test_a_data_set_on_the_disk_equals_the_one_in_memory(
    write: Callable[[Path], Entry], tmp_path: Path
) -> None:
    stored, loaded = open_both(tmp_path, write)
    assert_equal(stored, loaded)
    rows = np.random.default_rng(1).permutation(N_ROWS)[:2_000]
    assert_equal(stored.take(rows), loaded.take(rows))
    again = np.arange(1_999, -1, -3)
    assert_equal(stored.take(rows).take(again), loaded.take(rows[again]))


def test_a_small_table_is_in_memory_whatever_the_limit(tmp_path: Path) -> None:
    entry = write_csv(tmp_path)
    data = Catalogue(tmp_path, 10**9).add("people", entry)
    assert not isinstance(data.columns, StoredColumns)
    assert data.columns.equals(Catalogue(tmp_path).read("people").columns)


def test_copies_vanish_with_the_data_set_and_those_of_a_killed_process_at_the_next_start(
    tmp_path: Path,
) -> None:
    data = Catalogue(tmp_path, SMALL).add("people", write_csv(tmp_path))
    copies = tmp_path / COPIES
    assert len(list(copies.iterdir())) == 1
    assert copies.stat().st_mode & 0o077 == 0
    assert next(copies.iterdir()).stat().st_mode & 0o077 == 0
    del data
    gc.collect()
    assert not list(copies.iterdir())
    (copies / "left.parquet").touch()
    remove_copies(tmp_path)
    assert not list(copies.iterdir())


def test_a_file_that_changes_while_it_is_used_is_refused(tmp_path: Path) -> None:
    data = Catalogue(tmp_path, SMALL).add("people", write_parquet(tmp_path))
    table = data.features()
    pyarrow.parquet.write_table(make_table().slice(1), tmp_path / "people.parquet")
    with pytest.raises(DataError, match="changed"):
        fit_bins(table, seed=0)


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(make_table().slice(0, 0), path)
    data = Catalogue(tmp_path, SMALL).add("people", Entry(source=path.name, id=["id"]))
    assert data.features().n_features == 5
    assert data.features().load().n_rows == data.n_rows == 0


LATE = {
    "null": "",
    "whole": "7",
    "true": "true",
    "date": "2026-01-31",
    "time": "12:30:00",
    "moment": "2026-01-31 12:30:00",
    "instant": "2026-01-31 12:30:00.25",
    "fraction": "0.5",
    "text": "x",
}


@pytest.mark.parametrize("first", LATE)
def test_types_of_a_csv_file_are_those_that_it_has_as_a_whole(first: str, tmp_path: Path) -> None:
    names = list(LATE)
    lines = [",".join(names)] + [",".join([LATE[first]] * len(names))] * 400
    lines += [",".join(LATE.values())]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    whole = pyarrow.csv.read_csv(path, convert_options=options)

    def open_csv(types: Any) -> Any:
        converting = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        reading = pyarrow.csv.ReadOptions(block_size=1 << 10)
        return pyarrow.csv.open_csv(path, read_options=reading, convert_options=converting)

    assert find_csv_types(open_csv, {}) == dict(
        zip(whole.column_names, whole.schema.types, strict=True)
    )


@pytest.mark.parametrize(
    "values",
    [
        [1] * 10_000 + [2.5, None],
        [None] * 10_000 + [3],
        [1] * 10_000 + ["x"],
        [2**53 + 1] + [1] * 10_000 + [0.5],
        [2**60] * 10_000 + [None],
        [0.25] * 10_000 + [7],
    ],
    ids=["fraction", "none first", "text", "large", "whole", "whole last"],
)
def test_types_of_sqlite_are_those_of_the_column_as_a_whole(
    values: list[Any], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute("CREATE TABLE t (v, label)")
        connection.executemany("INSERT INTO t VALUES (?, 1)", [(value,) for value in values])
        connection.commit()
    entry = Entry(source="t.db", table="t")
    stored = Catalogue(tmp_path, SMALL).add("t", entry)
    loaded = Catalogue(tmp_path).read("t")
    assert stored.columns.column("v").type == loaded.columns.column("v").type
    np.testing.assert_array_equal(stored.column("v"), loaded.column("v"))
