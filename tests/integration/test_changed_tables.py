"""Files that are replaced while a run is under way, with and without a kill of their party."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import DataError
from fedforest.runtime.messages.orders import ResumeRun
from fedforest.runtime.messages.results import VerticalResult
from tests.integration.disturbances import Disturbance, state_of, train_disturbed, train_until
from tests.integration.processes import Processes
from tests.integration.samples import COLUMNS, vertical


@pytest.fixture
def table(pair: Processes, tmp_path: Path) -> Iterator[Path]:
    """The bank's table, which is put back in the end."""
    path = pair.folder.parties["bank"].home / f"{COLUMNS}.parquet"
    before = tmp_path / "before.parquet"
    shutil.copy2(path, before)
    yield path
    shutil.copy2(before, path)


def replace_values(path: Path) -> None:
    """Put a table of as many rows, with other values, in the place of one."""
    table = pyarrow.parquet.read_table(path)
    other = [value + 1.0 if row % 2 else value for row, value in enumerate(table[0].to_pylist())]
    names = table.column_names
    changed = table.set_column(0, names[0], pyarrow.array(other, table[0].type))
    pyarrow.parquet.write_table(changed, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def test_a_run_keeps_to_the_table_that_it_read(pair: Processes, table: Path) -> None:
    order = vertical(2)
    result = train_disturbed(pair, order, [Disturbance(5, lambda: replace_values(table))])
    pair.check(order, result)


def test_a_run_whose_party_was_killed_says_that_its_table_is_another(
    pair: Processes, table: Path, tmp_path: Path
) -> None:
    bank, kept = pair.folder.parties["bank"], tmp_path / "kept.parquet"
    shutil.copy2(table, kept)

    def act(_: str) -> None:
        bank.kill()
        replace_values(table)
        bank.start()

    order = vertical(2)
    run, error = train_until(pair, order, 5, act)
    assert isinstance(error, DataError)
    assert error.party == "bank"
    assert f"is not what it was when run {run} began" in str(error)
    state = state_of(pair, run)
    assert state.state == "paused"
    assert "put it back as it was and resume the run" in state.doing
    shutil.copy2(kept, table)
    with pair.user() as user:
        pair.check(order, user.ask(ResumeRun(run=run), VerticalResult))
