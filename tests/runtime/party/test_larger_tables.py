"""A table larger than the memory of its party: the same model, to the byte."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import StorageError
from fedforest.runtime.messages.orders import TrainHorizontal, TrainVertical
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.stored_columns import StoredTable
from fedforest.runtime.party.mapped_memory import MappedMemory
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.in_process import ProcessMeans, TrainedHere, train_in_process
from fedforest.runtime.trainings.registry import training_of
from fedforest.tree.files.forests import encode_partial
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.shards.sharded_rows import ShardedRows
from fedforest.tree.table.bins import fit_bins
from fedforest.tree.table.pieces import TableSource
from tests.runtime.party import peak_memory
from tests.tree.shards.engines import EngineHere

N_ROWS = 6_000
PARTIES = ("bank", "shop")
PARAMETERS = ForestParameters(n_estimators=3, max_depth=5)


class OwnRows:
    """What a role needs of its party here: the rows of a data set, all of them."""

    def take_rows(self, data: Any, choice: Any) -> Any:
        assert choice is None
        return data


def write_tables(folder: Path) -> None:
    rng = np.random.default_rng(5)
    for party in PARTIES:
        numbers = rng.standard_normal((N_ROWS, 4)).astype(np.float32)
        columns: dict[str, Any] = {f"{party}_{i}": column for i, column in enumerate(numbers.T)}
        columns[f"{party}_missing"] = np.where(rng.random(N_ROWS) < 0.2, np.nan, numbers[:, 0])
        columns["city"] = rng.choice(["Ulm", "Bonn", "Kiel"], N_ROWS)
        columns["weight"] = rng.integers(1, 4, N_ROWS)
        columns["label"] = (numbers[:, 0] + rng.standard_normal(N_ROWS) > 0).astype(np.int8)
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{party}.parquet")


def train(
    folder: Path, order: Any, memory_limit: int | None, make_rows: MakeRows | None = None
) -> TrainedHere:
    """Train over the tables of a folder; with a limit, nothing as large as a table is in memory."""
    training = training_of(order)
    catalogue = Catalogue(folder, memory_limit)
    columns = {}
    for party, role in training.roles(order).items():
        data = catalogue.add(party, Entry(source=f"{party}.parquet"), replaces=True)
        columns[party] = training.read(role, data, OwnRows())  # type: ignore[arg-type] # enough here
        assert isinstance(columns[party].table, StoredTable) == (memory_limit is not None)
    memory = MappedMemory(folder / "mapped", memory_limit)
    means = ProcessMeans(SystemRandomness(7), allocate=memory.allocate, make_rows=make_rows)
    return train_in_process(order, columns, means)


def files_of(trained: TrainedHere, order: Any) -> Mapping[str, bytes]:
    if isinstance(order, TrainHorizontal):
        return {party: bytes(work.party.model_file) for party, work in trained.works.items()}
    models = {party: work.party.model() for party, work in trained.works.items()}
    return {party: encode_partial(model.partial, model.bins) for party, model in models.items()}


VERTICAL = TrainVertical(
    data={party: party for party in PARTIES},
    label="label",
    label_party="bank",
    parameters=PARAMETERS,
    seed=3,
)
HORIZONTAL = TrainHorizontal(
    data={party: party for party in PARTIES},
    label="label",
    parameters=ForestParameters(
        n_estimators=3, max_depth=5, bootstrap=False, max_features=None, criterion="entropy"
    ),
    seed=3,
)


def rename_columns(folder: Path) -> None:
    """Give the parties of a horizontal training the same columns."""
    for party in PARTIES:
        path = folder / f"{party}.parquet"
        table = pyarrow.parquet.read_table(path)
        names = [name.removeprefix(f"{party}_") for name in table.column_names]
        pyarrow.parquet.write_table(table.rename_columns(names), path)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_vertical_training_from_the_disk_gives_the_files_of_training_in_memory(
    weight: str | None, tmp_path: Path
) -> None:
    write_tables(tmp_path)
    order = msgspec.structs.replace(VERTICAL, weight=weight)
    expected = files_of(train(tmp_path, order, None), order)
    assert files_of(train(tmp_path, order, 2_000), order) == expected


def test_shards_read_their_own_rows_of_the_disk_and_give_the_same_files(tmp_path: Path) -> None:
    write_tables(tmp_path)
    for party in PARTIES:  # several groups of rows, some of them in two shards
        table = pyarrow.parquet.read_table(tmp_path / f"{party}.parquet")
        pyarrow.parquet.write_table(table, tmp_path / f"{party}.parquet", row_group_size=700)
    expected = files_of(train(tmp_path, VERTICAL, None), VERTICAL)

    def make_rows(table: TableSource) -> ShardedRows:
        return ShardedRows(lambda: EngineHere(4, {9}), table, 300)

    assert files_of(train(tmp_path, VERTICAL, 2_000, make_rows), VERTICAL) == expected
    assert files_of(train(tmp_path, VERTICAL, None, make_rows), VERTICAL) == expected


def test_a_span_of_stored_rows_is_that_span_of_the_table(tmp_path: Path) -> None:
    write_tables(tmp_path)
    path = tmp_path / "bank.parquet"
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path), path, row_group_size=500)
    data = Catalogue(tmp_path, 2_000).add("bank", Entry(source="bank.parquet"))
    stored = data.features(())
    whole = stored.load()
    order = np.random.default_rng(1).permutation(N_ROWS)
    for first, last in ((0, N_ROWS), (0, 1), (499, 501), (500, 1000), (5_999, 6_000), (70, 70)):
        spans = (stored.take_span(first, last), whole.take_span(first, last))
        chosen = (
            stored.take_rows(order).take_span(first, last),
            whole.take_rows(order[first:last]),
        )
        narrower = (stored.take_span(70, 5000).take_span(3, 9), whole.take_span(73, 79))
        rows = np.array([2, 0, 1])
        in_span = (stored.take_span(70, 90).take_rows(rows), whole.take_rows(rows + 70))
        for own, expected in (spans, chosen, narrower, in_span):
            bins = fit_bins(whole, seed=0)
            assert own.n_rows == expected.n_rows
            assert np.array_equal(bins.transform(own), bins.transform(expected))
            assert np.array_equal(bins.transform(own.load()), bins.transform(expected))


def test_horizontal_training_from_the_disk_gives_the_files_of_training_in_memory(
    tmp_path: Path,
) -> None:
    write_tables(tmp_path)
    rename_columns(tmp_path)
    expected = files_of(train(tmp_path, HORIZONTAL, None), HORIZONTAL)
    assert files_of(train(tmp_path, HORIZONTAL, 2_000), HORIZONTAL) == expected


def test_batches_of_trees_as_small_as_the_run_says_give_the_same_files(tmp_path: Path) -> None:
    write_tables(tmp_path)
    expected = files_of(train(tmp_path, VERTICAL, None), VERTICAL)
    alone = msgspec.structs.replace(VERTICAL, batch_bytes=1 << 16)  # one tree at a time
    assert files_of(train(tmp_path, alone, None), alone) == expected


def test_large_arrays_live_in_files_without_a_name(tmp_path: Path) -> None:
    memory = MappedMemory(tmp_path / "mapped", 1_000)
    small, large = memory.allocate((10,), np.uint8), memory.allocate((7, 1_000), np.float32)
    large[:] = 3
    assert small.base is None
    assert large.shape == (7, 1_000)
    assert large.base is not None
    assert not list((tmp_path / "mapped").iterdir())
    with pytest.raises(StorageError, match="memory_limit"):
        memory.allocate((2**50,), np.uint8)


def test_a_table_three_times_larger_than_memory_trains_within_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.runtime.party.peak_memory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    within, in_memory, is_equal = done.stdout.split()
    assert is_equal == "True"
    assert int(within) <= peak_memory.LIMIT + peak_memory.READING
    assert int(in_memory) > 2 * int(within)
