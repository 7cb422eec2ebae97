"""Times vertical trainings of a party on a Dask cluster of this machine, beside the local path.

    python benchmarks/runs/cluster.py [--rows 10000000] [--shards 1 2 4] [--quick]

Two parties read Parquet files in one process, which has two threads; with shards, their rows lie in
worker processes. Each forest must be the local one, to the byte. Then equal bytes are seen for
every kind of label, on fewer rows. Every place is measured in a process of its own, when all is
loaded. Processor time is of the parties' process and the workers together. XGBoost on Dask, with
the pooled columns, is there for orientation if it is installed.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks.report import PAGE, RESULTS, write_page
from fedforest.experiments.environment import describe_environment
from fedforest.runtime.compute.dask_engine import DaskCluster, start_cluster
from fedforest.runtime.federation import start_workers
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.in_process import ProcessMeans, train_in_process
from fedforest.runtime.trainings.vertical import VERTICAL
from fedforest.tree.files.forests import encode_partial
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.shards.sharded_rows import ShardedRows

SEED, N_COLUMNS, PARTIES, N_THREADS = 0, 5, ("bank", "shop"), 2
N_ROWS, QUICK_ROWS, KIND_ROWS, WARM_ROWS = 10_000_000, 30_000, 200_000, 40_000
SHARDS, QUICK_SHARDS = (1, 2, 4), (2,)
FOREST = ForestParameters(n_estimators=5, max_depth=8)
_ROWS_IN_GROUP = 250_000
_LABELS = ("two", "five", "number")


class _AllRows:
    """What a role needs of its party here: the rows of a data set, all of them."""

    def take_rows(self, data: Any, choice: Any) -> Any:
        assert choice is None
        return data


def write_tables(folder: Path, n_rows: int) -> None:
    """Write the columns of both parties, group by group, and labels of all kinds."""
    rng = np.random.default_rng(SEED)
    writers: dict[str, Any] = {}
    for first in range(0, n_rows, _ROWS_IN_GROUP):
        n = min(_ROWS_IN_GROUP, n_rows - first)
        score = rng.standard_normal(n)
        for party in PARTIES:
            numbers = rng.standard_normal((N_COLUMNS, n)).astype(np.float32)
            score += numbers[0] - numbers[1] * numbers[2]
            columns: dict[str, Any] = {f"{party}_{k}": each for k, each in enumerate(numbers)}
            if party == PARTIES[-1]:
                columns["two"] = (score > 0).astype(np.int8)
                columns["five"] = np.digitize(score, [-2, -0.5, 0.5, 2]).astype(np.int8)
                columns["number"] = score.round(3)
            table = pyarrow.table(columns)
            path = folder / f"{party}.parquet"
            if party not in writers:
                writers[party] = pyarrow.parquet.ParquetWriter(path, table.schema)
            writers[party].write_table(table)
    for writer in writers.values():
        writer.close()


def train(folder: Path, label: str, make_rows: MakeRows | None) -> str:
    """Train one forest; return the digest of both parties' files."""
    order = TrainVertical(
        data={party: party for party in PARTIES},
        label=label,
        label_party=PARTIES[-1],
        parameters=FOREST if label != "number" else _by_squares(),
        seed=SEED,
    )
    catalogue, columns = Catalogue(folder, 2**26), {}
    for party, role in VERTICAL.roles(order).items():
        exclude = [] if party != PARTIES[-1] else [each for each in _LABELS if each != label]
        entry = Entry(source=f"{party}.parquet", exclude=exclude)
        data = catalogue.add(party, entry, replaces=True)
        columns[party] = VERTICAL.read(role, data, _AllRows())  # type: ignore[arg-type] # enough here
    with start_workers(N_THREADS) as workers:
        random = SystemRandomness(SEED)
        means = ProcessMeans(random, workers, len(PARTIES), make_rows=make_rows)
        trained = train_in_process(order, columns, means)
    digest = sha256()
    for party in PARTIES:
        model = trained.works[party].party.model()
        digest.update(encode_partial(model.partial, model.bins))
    return digest.hexdigest()


def _by_squares() -> ForestParameters:
    return ForestParameters(
        task="regression",
        n_estimators=FOREST.n_estimators,
        max_depth=FOREST.max_depth,
        criterion="squared_error",
    )


def _own_seconds() -> float:
    return time.process_time()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: Path, label: str, cluster: DaskCluster | None) -> dict[str, Any]:
    """Train once: the clock, processor time, and peaks of memory since processes began."""

    def processor() -> float:
        workers = {} if cluster is None else cluster.run(_own_seconds)
        return _own_seconds() + sum(workers.values())

    make_rows: MakeRows | None = None
    if cluster is not None:
        engine = cluster.engine

        def make_rows(table: Any) -> ShardedRows:
            return ShardedRows(engine, table)

    before, started = processor(), time.perf_counter()
    digest = train(folder, label, make_rows)
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "processor_seconds": processor() - before,
        "digest": digest,
        "peak_bytes": _peak_bytes(),
        "worker_peak_bytes": [] if cluster is None else list(cluster.run(_peak_bytes).values()),
    }


def measure_place(folder: Path, n_shards: int) -> dict[str, Any]:
    """Measure one number of shards, 0 for the local path, once everything is loaded."""
    with _place(n_shards) as cluster:
        for label in _LABELS:
            measure(folder / "warm", label, cluster)
        run = {"shards": n_shards, **measure(folder / "large", "two", cluster)}
        kinds = {label: measure(folder / "small", label, cluster)["digest"] for label in _LABELS}
    return {**run, "digest_by_label": kinds}


@contextmanager
def _place(n_shards: int) -> Iterator[DaskCluster | None]:
    if n_shards == 0:
        yield None
        return
    with start_cluster(n_shards) as cluster:
        yield cluster


def measure_xgboost(folder: Path, n_workers: int) -> dict[str, Any]:
    """Grow as many trees of that depth on the pooled columns, by XGBoost on Dask."""
    import dask.array  # noqa: PLC0415 - may be missing
    import xgboost.dask  # noqa: PLC0415 - may be missing

    tables = [pyarrow.parquet.read_table(folder / f"{party}.parquet") for party in PARTIES]
    y = tables[-1].column("two").to_numpy()
    names = [(table, name) for table in tables for name in table.column_names if "_" in name]
    X = np.column_stack([table.column(name).to_numpy() for table, name in names])
    with start_cluster(n_workers) as cluster, cluster.client.as_current():
        started = time.perf_counter()
        rows = len(y) // (4 * n_workers) + 1
        data = xgboost.dask.DaskQuantileDMatrix(
            cluster.client,
            dask.array.from_array(X, (rows, X.shape[1])),
            dask.array.from_array(y, rows),
        )
        settings = {
            "objective": "binary:logistic",
            "max_depth": FOREST.max_depth,
            "num_parallel_tree": FOREST.n_estimators,
            "subsample": 0.632,
            "colsample_bynode": 0.3,
            "tree_method": "hist",
        }
        xgboost.dask.train(cluster.client, settings, data, num_boost_round=1)
        return {"seconds": time.perf_counter() - started, "workers": n_workers}


def in_own_process(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a fresh process, so that nobody's peak of memory counts for another."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as executor:
        return executor.submit(function, *arguments).result()


def measure_all(result: dict[str, Any], folder: Path, shards: Sequence[int]) -> Iterator[None]:
    """Fill the result; yields when it can be published, without and then with XGBoost."""
    settings = result["settings"]
    sizes = {
        "large": settings["rows"],
        "small": min(KIND_ROWS, settings["rows"]),
        "warm": WARM_ROWS,
    }
    for name, size in sizes.items():
        (folder / name).mkdir()
        write_tables(folder / name, size)
    expected: dict[str, str] = {}
    for n_shards in (0, *shards):
        run = in_own_process(measure_place, folder, n_shards)
        digests = run.pop("digest_by_label")
        expected = expected or digests
        result["tasks"].append(run)
        if n_shards:
            for label in _LABELS:
                result["equal"][label].append(digests[label] == expected[label])
        print(json.dumps(run), result["equal"], flush=True)
    yield
    n_workers = min(2, os.cpu_count() or 1)
    try:
        result["xgboost"] = in_own_process(measure_xgboost, folder / "large", n_workers)
    except ImportError as error:
        print(f"without XGBoost on Dask, for orientation: {error}", flush=True)
        return
    print(json.dumps(result["xgboost"]), flush=True)
    yield


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the result and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS)
    parser.add_argument("--quick", action="store_true", help="a small size; the page is only shown")
    options = parser.parse_args(arguments)
    shards = QUICK_SHARDS if options.quick else tuple(options.shards)
    started = time.perf_counter()
    result: dict[str, Any] = {
        "run": "cluster",
        "environment": describe_environment(),
        "settings": {
            "seed": SEED,
            "quick": options.quick,
            "rows": QUICK_ROWS if options.quick else options.rows,
            "trees": FOREST.n_estimators,
            "depth": FOREST.max_depth,
            "threads": N_THREADS,
        },
        "tasks": [],
        "equal": {label: [] for label in _LABELS},
        "xgboost": None,
    }
    with tempfile.TemporaryDirectory() as name:
        tables, results = Path(name) / "tables", RESULTS
        tables.mkdir()
        page = PAGE
        if options.quick:
            results, page = Path(name), Path(name) / "RESULTS.md"
        for _ in measure_all(result, tables, shards):
            result["minutes"] = round((time.perf_counter() - started) / 60, 1)
            (results / "cluster.json").write_text(json.dumps(result, indent=1) + "\n")
            write_page(results, page)
        if options.quick:
            print(page.read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
