"""The price of a fingerprint of rows beside reading: `python benchmarks/micro/fingerprints.py`.

Reading and fingerprint are tried in turn, by processor time of all threads; the least of many tries
counts, because other work on the machine only ever adds to a time.
"""

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import duckdb
from rich.console import Console
from rich.table import Table

from fedforest.runtime.party.catalogue.columns import prepare_columns
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.fingerprints import fingerprint_rows
from fedforest.runtime.party.catalogue.sources import read_source

COLUMNS = ", ".join(
    [f"random() AS x{number}" for number in range(6)]
    + ["range AS id", "range % 7 AS small", "'city ' || (range % 500) AS city"]
    + ["CASE WHEN range % 10 = 0 THEN NULL ELSE range / 3.0 END AS gaps"]
)


def fill(folder: Path, n_rows: int) -> list[str]:
    """Write the same rows into a DuckDB and a SQLite file; return their names."""
    with duckdb.connect(str(folder / "rows.duckdb")) as base:
        base.execute(f"CREATE TABLE rows AS SELECT {COLUMNS} FROM range({n_rows})")
        found = base.execute("SELECT * FROM rows").fetchall()
    marks = ", ".join("?" * len(found[0]))
    with closing(sqlite3.connect(folder / "rows.sqlite")) as other:
        names = ", ".join(f"c{number}" for number in range(len(found[0])))
        other.execute(f"CREATE TABLE rows ({names})")
        other.executemany(f"INSERT INTO rows VALUES ({marks})", found)
        other.commit()
    return ["rows.duckdb", "rows.sqlite"]


def spend(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds that something takes, and its result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def main() -> None:
    """Print a row for each kind of database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    shown = Table("database", "read, s", "and prepared", "fingerprint, s", "of reading")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in fill(folder, chosen.rows):
            entry = Entry(source=source, table="rows")
            reading, preparing, printing = [], [], []
            for _ in range(chosen.repeats):
                seconds, read = spend(partial(read_source, "rows", folder, entry))
                reading.append(seconds)
                preparing.append(spend(partial(prepare_columns, "rows", read.table, entry))[0])
                printing.append(spend(partial(fingerprint_rows, read.table))[0])
            read_in, prepared_in, printed_in = map(min, (reading, preparing, printing))
            shown.add_row(
                source,
                f"{read_in:.3f}",
                f"{read_in + prepared_in:.3f}",
                f"{printed_in:.4f}",
                f"{printed_in / read_in:.1%}",
            )
    Console().print(shown)


if __name__ == "__main__":
    main()
