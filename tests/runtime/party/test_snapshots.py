"""A run reads one state of each table: another one is noticed, named, and never mixed in."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import DataError
from fedforest.runtime.messages.orders import ResumeRun, TrainHorizontal, TrainVertical, Validation
from fedforest.runtime.messages.results import HorizontalResult, VerticalResult
from fedforest.runtime.party.catalogue import catalogue as module
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation, make_party
from tests.integration.samples import COLUMNS, ROWS, divide, horizontal, vertical

RUN = bytes([1]) * 16
CHANGED = r"data set 'columns' is not what it was when run 0101"


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern) as federation:
        yield federation


def order(**changes: object) -> TrainVertical:
    return msgspec.structs.replace(vertical(2, n_trees=2, max_depth=3), **changes)


def disturb(federation: LocalFederation, kind: bytes, act: Callable[[], None]) -> None:
    """Do something before the bank answers the first message of this kind."""
    is_done = False

    def answer(data: bytes) -> bytes:
        nonlocal is_done
        if kind in data and not is_done:
            is_done = True
            act()
        return federation.parties["bank"].answer(data)

    federation.hub.endpoints["bank"] = answer


def change_values(federation: LocalFederation, name: str = COLUMNS) -> None:
    """Write a table with as many rows in the same order, and one other value."""
    path = federation.homes["bank"] / f"{name}.parquet"
    shutil.copy2(path, path.with_suffix(".before"))
    table = pyarrow.parquet.read_table(path)
    values = table.column("x0").to_pylist()
    values[7] += 1.0
    other = table.set_column(0, "x0", pyarrow.array(values, table.column("x0").type))
    pyarrow.parquet.write_table(other, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def put_back(federation: LocalFederation) -> None:
    path = federation.homes["bank"] / f"{COLUMNS}.parquet"
    shutil.copy2(path.with_suffix(".before"), path)


def restart(federation: LocalFederation) -> None:
    federation.parties["bank"].close()
    federation.parties["bank"] = make_party(federation.homes["bank"])


def test_a_run_goes_on_with_what_it_read_first(federation: LocalFederation) -> None:
    undisturbed = federation.ask(order(), VerticalResult, RUN)
    again = bytes([2]) * 16
    disturb(federation, b"FindSplits", lambda: change_values(federation))
    disturbed = federation.ask(order(), VerticalResult, again)
    assert isinstance(disturbed, VerticalResult)
    same = msgspec.structs.replace(disturbed, model=RUN.hex())
    assert msgspec.msgpack.encode(same) == msgspec.msgpack.encode(undisturbed)


def test_a_party_that_was_killed_does_not_go_on_with_another_table(
    federation: LocalFederation,
) -> None:
    def act() -> None:
        change_values(federation)
        restart(federation)

    disturb(federation, b"FindSplits", act)
    with pytest.raises(DataError, match=CHANGED) as caught:
        federation.ask(order(), VerticalResult, RUN)
    assert caught.value.party == "bank"
    assert "put it back as it was and resume the run" in str(caught.value)
    put_back(federation)
    resumed = federation.ask(ResumeRun(run=RUN.hex()), VerticalResult)
    expected = federation.ask(order(), VerticalResult, bytes([2]) * 16)
    assert isinstance(expected, VerticalResult)
    assert resumed == msgspec.structs.replace(expected, model=RUN.hex())


@pytest.mark.parametrize("protocol", ["vertical", "horizontal"])
def test_a_model_is_not_scored_on_another_table(federation: LocalFederation, protocol: str) -> None:
    validated: TrainVertical | TrainHorizontal = order(validation=Validation())
    kind: type = VerticalResult
    name = COLUMNS
    if protocol == "horizontal":
        by_rows = horizontal(2, max_depth=3)
        validated = msgspec.structs.replace(by_rows, validation=Validation())
        kind, name = HorizontalResult, ROWS
    disturb(federation, b"EndRun", lambda: change_values(federation, name))
    with pytest.raises(DataError, match="is not what it was when run"):
        federation.ask(validated, kind, RUN)


def test_a_database_is_the_same_while_its_rows_are(tmp_path: Path) -> None:
    path = tmp_path / "base.sqlite"
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE people (id INTEGER, x REAL)")
        base.executemany("INSERT INTO people VALUES (?, ?)", [(row, row / 2) for row in range(50)])
        base.commit()
    catalogue = Catalogue(tmp_path)
    catalogue.add("people", Entry(source="base.sqlite", query="SELECT * FROM people ORDER BY id"))

    def snapshot() -> str:
        catalogue.renew("people")
        return catalogue.read("people").snapshot

    def change(statement: str) -> None:
        with closing(sqlite3.connect(path)) as base:
            base.execute(statement)
            base.commit()

    before = snapshot()
    change("CREATE TABLE other (y REAL)")  # the file is another, the rows are not
    assert snapshot() == before
    change("UPDATE people SET x = 7.25 WHERE id = 20")
    assert snapshot() != before
    change("UPDATE people SET x = 10.0 WHERE id = 20")
    assert snapshot() == before
    assert Catalogue(tmp_path).read("people").snapshot == before  # of another process


def test_a_file_that_is_written_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("x\n1\n2\n")
    catalogue = Catalogue(tmp_path)
    catalogue.add("people", Entry(source="people.csv"))
    path.write_text("x\n1\n2\n3\n")
    read: Any = vars(module)["read_source"]

    def read_slowly(*arguments: object) -> object:
        found = read(*arguments)
        path.write_text("x\n1\n")
        return found

    monkeypatch.setattr(module, "read_source", read_slowly)
    with pytest.raises(DataError, match="was written while it was read"):
        catalogue.read("people")
    monkeypatch.undo()
    assert catalogue.read("people").n_rows == 1
