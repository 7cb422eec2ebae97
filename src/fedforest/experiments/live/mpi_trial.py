"""A script for `fedforest mpi`: the same forest in one process and over the ranks, in turn.

    mpiexec -n 3 fedforest mpi mpi_trial.py TABLES.npz OUTCOME.json

`TABLES.npz` has a table of each party, the labels `y`, and `parameters` as JSON.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedforest import VerticalForestClassifier

TIMES = 3  # of each, after one that is not timed


def compare(tables: dict[str, Any], y: Any, parameters: dict[str, Any]) -> dict[str, float]:
    """Train in turn; return seconds, whether every stored byte is the same, and what was sent."""
    seconds: dict[str, list[float]] = {"mpi": [], "one process": []}
    stored: dict[str, dict[str, bytes]] = {}
    for number in range(1 + TIMES):
        for where, transport in (("mpi", "mpi"), ("one process", None)):
            forest = VerticalForestClassifier(transport=transport, **parameters)
            started = time.perf_counter()
            forest.fit(tables, y)
            if number > 0:
                seconds[where].append(time.perf_counter() - started)
            stored[where] = forest.to_partial_forests()
    return {
        "wall": statistics.median(seconds["mpi"]),
        "process": statistics.median(seconds["one process"]),
        "identical": float(stored["mpi"] == stored["one process"]),
        "stored": float(sum(map(len, stored["mpi"].values()))),
        "exchanges": float(forest.n_exchanges_),
        "bytes": float(sum(forest.bytes_sent_.values())),
    }


def main(source: Path, outcome: Path) -> None:
    with np.load(source) as content:
        parameters = json.loads(str(content["parameters"]))
        tables = {name: content[name] for name in content.files if name.startswith("party_")}
        y = content["y"]
    outcome.write_text(json.dumps(compare(tables, y, parameters)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
