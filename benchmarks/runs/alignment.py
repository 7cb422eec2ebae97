"""Times alignments of two parties, each a process: how long, how much processor, how much memory.

    python benchmarks/runs/alignment.py [--sizes 100000 1000000] [--quick]

Half of the ids are common. Each size is aligned by keyed hashes, by an intersection that is kept,
and by an extension of that by 1 % new ids. Processor time is of all three processes together, so
that it says something on a machine that others use, too; the clock does where none do. Peaks of
memory are of whole processes. The libraries that others use are the anchor, by their own figures.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks.live_federation import PARTIES
from benchmarks.report import RESULTS, write_page
from fedforest.experiments.environment import describe_environment
from fedforest.experiments.live.federation import LiveFederation, Tables
from fedforest.runtime.messages.orders import AlignRows
from fedforest.runtime.messages.results import Alignment

SEED, NEW_FRACTION = 0, 0.01
SIZES, QUICK_SIZES = (100_000, 1_000_000), (2_000,)
_TABLE = "people"


def make_ids(n_ids: int, n_new: int = 0) -> dict[str, pyarrow.Table]:
    """Ids of two parties, half of them common, in orders of their own; new ones come at the end."""
    rng, tables = np.random.default_rng(SEED), {}
    for number, party in enumerate(PARTIES):
        start = number * n_ids // 2
        old, new = rng.permutation(n_ids) + start, np.arange(n_new) + 2 * n_ids
        tables[party] = pyarrow.table({"id": pyarrow.array(map(str, [*old, *new]))})
    return tables


def measure(federation: LiveFederation, work: Callable[[], Alignment]) -> dict[str, Any]:
    """Do the work; return its time, and what processes took and hold."""
    before = {role.home.name: role.footprint() for role in federation.roles}
    started = time.perf_counter()
    alignment = work()
    seconds = time.perf_counter() - started
    after = {role.home.name: role.footprint() for role in federation.roles}
    return {
        "common": alignment.n_common,
        "seconds": seconds,
        "processor_seconds": sum(
            after[name].processor_seconds - before[name].processor_seconds for name in after
        ),
        "peak_bytes": {name: each.peak_bytes for name, each in after.items()},
        "bytes_before": {name: each.resident_bytes for name, each in before.items()},
    }


def measure_size(n_ids: int) -> list[dict[str, Any]]:
    """Measure all kinds of alignment of so many ids at each party."""
    n_new = max(1, int(n_ids * NEW_FRACTION))
    tables = {party: {_TABLE: table} for party, table in make_ids(n_ids).items()}
    rows: list[dict[str, Any]] = []

    def take(federation: LiveFederation, kind: str, **settings: Any) -> None:
        order = AlignRows(data=dict.fromkeys(PARTIES, _TABLE), **settings)
        with federation.connect() as user:
            figures = measure(federation, lambda: user.train(order, Alignment))
        rows.append({"ids": n_ids, "kind": kind, **figures})

    with _start(tables) as federation:
        take(federation, "keyed-hash")
    with _start(tables) as federation:
        take(federation, "psi", method="psi", name="people")
        for party, table in make_ids(n_ids, n_new).items():
            pyarrow.parquet.write_table(table, federation.folder / party / f"{_TABLE}.parquet")
        take(federation, "extension by 1 %", method="psi", extends="people")
    return rows


@contextmanager
def _start(tables: Tables) -> Iterator[LiveFederation]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveFederation(Path(folder), tables, id_column="id") as federation,
    ):
        yield federation


def main(arguments: Sequence[str]) -> None:
    """Measure the sizes that are asked for, and write the result and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--quick", action="store_true", help="a small size, written nowhere")
    options = parser.parse_args(arguments)
    sizes = QUICK_SIZES if options.quick else tuple(options.sizes or SIZES)
    environment, started = describe_environment(), time.perf_counter()
    tasks = []
    for n_ids in sizes:
        for row in measure_size(n_ids):
            print(json.dumps(row), flush=True)
            tasks.append(row)
    result = {
        "run": "alignment",
        "environment": environment,
        "settings": {"seed": SEED, "quick": options.quick},
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "tasks": tasks,
    }
    if not options.quick:
        (RESULTS / "alignment.json").write_text(json.dumps(result, indent=1) + "\n")
        write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
