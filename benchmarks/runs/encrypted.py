"""Times forests with encrypted labels beside the same forests with encoded ones, and their growth.

    python benchmarks/runs/encrypted.py [--quick] [--without-growth]

Two parties of half the columns each, all roles in one process, 2 threads. Both forests are grown
and compared. Processor time stands beside the clock, because a tree is judged by the clock of a
quiet machine with 2 cores. Rates of single operations, beside those of other libraries, come from
`micro/homomorphic.py`. The peers' figures are theirs, measured once: see their settings there.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
from sklearn.datasets import make_classification

from benchmarks.report import RESULTS, write_page
from benchmarks.runs.encrypted_figure import draw
from fedforest import Encrypted, VerticalForestClassifier, VerticalForestRegressor
from fedforest.experiments.environment import describe_environment

SEED, N_TREES, N_GROWTH_TREES = 0, 20, 3
BASE: dict[str, int] = {"rows": 5_000, "columns": 40, "bins": 32, "classes": 2, "depth": 6}
TASKS: dict[str, dict[str, int]] = {
    "two classes": {},
    "two classes, 100,000 rows": {"rows": 100_000},
    "ten classes": {"classes": 10},
    "numbers": {"classes": 0},
}
GROWTH: dict[str, tuple[int, ...]] = {
    "rows": (1_000, 5_000, 25_000),
    "columns": (10, 40, 160),
    "bins": (8, 32, 128),
    "classes": (2, 5, 10, 20),
}
QUICK = {"rows": 400, "depth": 3, "bins": 8}


def make_table(size: dict[str, int]) -> tuple[Any, Any]:
    """The peers' table, or one of its shape."""
    n_classes, n_columns = size["classes"], size["columns"]
    X, y = make_classification(
        size["rows"],
        n_columns,
        n_informative=min(20, n_columns // 2),
        n_classes=max(2, n_classes),
        random_state=SEED,
    )
    if n_classes == 0:
        y = X @ np.random.default_rng(SEED).normal(size=n_columns)
    return X, y


def measure(size: dict[str, int], n_trees: int) -> dict[str, Any]:
    """Grow both forests once unmeasured, on few trees, then once measured."""
    X, y = make_table(size)
    kind = VerticalForestClassifier if size["classes"] else VerticalForestRegressor
    settings: dict[str, Any] = {
        "max_depth": size["depth"],
        "max_bins": size["bins"],
        "max_features": "sqrt",
        "parties": 2,
        "n_jobs": 2,
        "random_state": SEED,
    }
    told: dict[str, Any] = {**size, "trees": n_trees}
    predictions: list[Any] = []
    protections: dict[str, Any] = {"encoded": "encoded", "encrypted": Encrypted()}
    for name, labels in protections.items():
        forest = kind(labels=labels, n_estimators=1, **settings).fit(X, y)
        forest.set_params(n_estimators=n_trees)
        processor, clock = time.process_time(), time.perf_counter()
        forest.fit(X, y)
        told[name] = {
            "seconds": time.perf_counter() - clock,
            "processor_seconds": time.process_time() - processor,
            "bytes_sent": dict(forest.bytes_sent_),
            "bytes_by_level": count_levels(forest),
        }
        predictions.append(forest.predict(X))
    told["is_same"] = bool(np.array_equal(*predictions))
    return told


def count_levels(forest: Any) -> list[int]:
    """Bytes of each level, to and from all parties."""
    counted: Counter[int] = Counter()
    for step in forest.fit_log_:
        counted[step.level] += step.n_bytes
    return [counted[level] for level in sorted(counted)]


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the result, the figure and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables, written nowhere")
    parser.add_argument("--without-growth", action="store_true")
    options = parser.parse_args(arguments)
    base = BASE | (QUICK if options.quick else {})
    environment, started = describe_environment(), time.perf_counter()
    tasks, growth = {}, {}
    for name, changes in TASKS.items():
        own = {**base, **({} if options.quick and "rows" in changes else changes)}
        tasks[name] = measure(own, 2 if options.quick else N_TREES)
        print(name, json.dumps(tasks[name]), flush=True)
    for quantity, values in GROWTH.items():
        if options.quick or options.without_growth:
            break
        growth[quantity] = [measure({**base, quantity: v}, N_GROWTH_TREES) for v in values]
        print(quantity, [point["encrypted"]["seconds"] for point in growth[quantity]], flush=True)
    result = {
        "run": "encrypted",
        "environment": environment,
        "settings": {"seed": SEED, "quick": options.quick},
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "tasks": tasks,
        "growth": growth,
        "operations": json.loads((RESULTS / "homomorphic.json").read_text()),
    }
    if not options.quick:
        (RESULTS / "encrypted.json").write_text(json.dumps(result, indent=1) + "\n")
        draw(result, RESULTS / "encrypted.png")
        write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
