"""One small table in every form that a catalogue reads, and catalogues over it."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet

from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry

CSV = "id,age,city,active\n7,31,Ulm,1\n8,,Bonn,0\n9,54,,1\n"
IDS = [b"7", b"8", b"9"]
AGES = [31, None, 54]
CITIES = ["Ulm", "Bonn", None]
ACTIVE = [1, 0, 1]


def make_table() -> pyarrow.Table:
    return pyarrow.table({"id": [7, 8, 9], "age": AGES, "city": CITIES, "active": ACTIVE})


def write_csv(folder: Path) -> Entry:
    (folder / "people.csv").write_text(CSV)
    return Entry(source="people.csv", id=["id"])


def write_parquet(folder: Path) -> Entry:
    pyarrow.parquet.write_table(make_table(), folder / "people.parquet")
    return Entry(source="people.parquet", id=["id"])


def write_duckdb(folder: Path) -> Entry:
    people = make_table()
    with duckdb.connect(str(folder / "people.db")) as connection:
        connection.register("given", people)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return Entry(source="people.db", table="people", id=["id"])


def write_sqlite(folder: Path) -> Entry:
    with closing(sqlite3.connect(folder / "people.db")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, age, city TEXT, active INTEGER)")
        rows = [tuple(row.values()) for row in make_table().to_pylist()]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    return Entry(source="people.db", table="people", id=["id"])


FILES: Mapping[str, Callable[[Path], Entry]] = {
    "CSV": write_csv,
    "Parquet": write_parquet,
    "DuckDB": write_duckdb,
    "SQLite": write_sqlite,
}


def add_csv(home: Path, text: str, entry: Entry) -> Catalogue:
    """A catalogue with one data set, `t`, over this text."""
    assert entry.source is not None
    (home / entry.source).write_text(text)
    catalogue = Catalogue(home)
    catalogue.add("t", entry)
    return catalogue
