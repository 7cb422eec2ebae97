"""Forests grown on a Dask cluster of several processes, some of which are killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from distributed import LocalCluster

from fedforest.errors import ConfigurationError, FederationError
from fedforest.runtime.compute.dask_engine import (
    DaskCluster,
    DaskEngine,
    join_cluster,
    start_cluster,
)
from fedforest.tree.shards.sharded_rows import ShardedRows
from fedforest.tree.table.frames import read_table
from fedforest.tree.table.pieces import TableSource
from tests.estimators.vertical_samples import few_trees
from tests.protocol.vertical.cases import VerticalCase, sample_case, whole_file

pytestmark = [
    pytest.mark.slow,
    few_trees,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Dask's sockets to killed workers
]

N_WORKERS = 3
FEW = {"n_estimators": 4, "oob_score": True}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with start_cluster(N_WORKERS) as started:
        yield started


class KilledDuring(DaskEngine):
    """Kills the worker of a shard when so many calls were begun."""

    def __init__(self, client: Any, n_calls: int) -> None:
        super().__init__(client)
        self.n_left, self.n_killed = n_calls, 0

    def ask(self, shard: int, method: str, *arguments: Any) -> Any:
        asked = super().ask(shard, method, *arguments)
        self.n_left -= 1
        if self.n_left == 0:
            worker = self._actors[shard].worker
            os.kill(self._client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)
            self.n_killed += 1
        return asked


@contextmanager
def on(make_engine: Any, rows_gathered: int = 60) -> Iterator[None]:
    def make_rows(table: TableSource) -> ShardedRows:
        return ShardedRows(make_engine, table, rows_gathered)

    where = "fedforest.estimators.vertical.training.opened_cluster"
    with patch(where, lambda _: nullcontext(make_rows)):
        yield


def numbers_case(parameters: dict[str, Any]) -> VerticalCase:
    rng = np.random.default_rng(4)
    columns = {f"c{k}": rng.standard_normal(400) for k in range(4)}
    return VerticalCase(columns, columns["c0"] + rng.standard_normal(400), None, parameters, (2, 2))


# nodes that stay in all shards cost an exchange with each of them, to the last level
@pytest.mark.parametrize(("rows_gathered", "max_depth"), [(0, 4), (60, None)])
def test_a_forest_grown_on_a_cluster_is_the_forest_of_the_table(
    rows_gathered: int, max_depth: int | None, cluster: DaskCluster
) -> None:
    parameters = {**FEW, "max_depth": max_depth}
    for case in (sample_case(parameters=parameters), numbers_case(parameters)):
        expected = whole_file(case.vertical())
        with on(cluster.engine, rows_gathered):
            assert whole_file(case.vertical()) == expected


@pytest.mark.parametrize("n_calls", [2, 25])
def test_a_killed_worker_changes_nothing_but_time(n_calls: int, cluster: DaskCluster) -> None:
    case, engines = sample_case(parameters=FEW), list[KilledDuring]()
    expected = whole_file(case.vertical())

    def make_engine() -> KilledDuring:
        engines.append(KilledDuring(cluster.client, n_calls if not engines else 0))
        return engines[-1]

    with on(make_engine):
        assert whole_file(case.vertical()) == expected
    assert [engine.n_killed for engine in engines] == [1, 0, 0]
    cluster.client.wait_for_workers(N_WORKERS, timeout=60)  # Dask starts another one


def test_an_error_in_a_shard_is_the_error_of_the_run(cluster: DaskCluster) -> None:
    rows = ShardedRows(cluster.engine, read_table({"c0": np.arange(30.0)}))
    with pytest.raises(AssertionError, match="columns are binned first"):
        rows._shards.query(lambda engine: engine.collect([engine.ask(0, "begin", 0, 0, 0)]))
    words = read_table({"c0": np.array(["red", "blue"] * 15, object)})
    bins = rows.fit_bins(0, 255)
    with pytest.raises(FederationError, match="c0"):
        ShardedRows(cluster.engine, words).bin_columns(bins)


def test_compute_starts_processes_that_end_with_the_training() -> None:
    case = sample_case(parameters={"n_estimators": 2})
    expected = whole_file(case.vertical())
    there = case.vertical(compute="dask:2")
    assert whole_file(there) == expected
    assert there.get_params()["compute"] == "dask:2"


def test_a_scheduler_that_is_not_there_or_has_no_workers_is_named() -> None:
    where = "fedforest.runtime.compute.dask_engine.CONNECT_SECONDS"
    with (
        patch(where, 1.0),
        pytest.raises(ConfigurationError, match="no Dask scheduler"),
        join_cluster("127.0.0.1:1"),
    ):
        pass
    processes: Any = LocalCluster  # ships no types
    with (
        patch(where, 1.0),
        processes(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(ConfigurationError, match="has no workers"),
        join_cluster(empty.scheduler_address),
    ):
        pass


def test_the_workers_of_a_scheduler_are_joined(cluster: DaskCluster) -> None:
    address = cluster.client.scheduler.address
    case = sample_case(parameters={"n_estimators": 2})
    expected = whole_file(case.vertical())
    assert whole_file(case.vertical(compute=f"dask:{address}")) == expected
