"""A federation in daily use: many predictions at once, and many trainings one after the other."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.runs.federation_training import predict, train
from benchmarks.tasks import SEED, ForestSettings
from fedforest.experiments.live.federation import LiveFederation
from fedforest.runtime.client.connection import Federation

N_CALLERS = 8
BATCHES = {1: 50, 1_000: 25}  # rows of a call -> calls of each caller
SOAK_FOREST = ForestSettings("binary", 5, 4)
N_SOAK_RUNS = 200
N_WARM_UP_RUNS = 20  # caches are full by then
N_LOOKS = 10


def measure_serving(client: Federation, model: str, n_rows: int, n_calls: int) -> dict[str, Any]:
    """Seconds of every call while 8 callers ask about so many rows of the test set each."""
    n_test = len(predict(client, model))
    rng = np.random.default_rng(SEED)
    rows = rng.integers(0, n_test, (N_CALLERS, n_calls, n_rows)).tolist()
    predict(client, model, rows[0][0])

    def call(batches: Sequence[list[int]]) -> list[float]:
        seconds = []
        for batch in batches:
            started = time.perf_counter()
            predict(client, model, batch)
            seconds.append(time.perf_counter() - started)
        return seconds

    started = time.perf_counter()
    with ThreadPoolExecutor(N_CALLERS) as callers:
        seconds = [value for values in callers.map(call, rows) for value in values]
    return {"rows": n_rows, "wall": time.perf_counter() - started, "seconds": seconds}


def measure_alone(client: Federation, model: str, n_calls: int) -> dict[str, Any]:
    """One caller who asks about the whole test set."""
    n_rows, seconds = len(predict(client, model)), []
    for _ in range(n_calls):
        started = time.perf_counter()
        predict(client, model)
        seconds.append(time.perf_counter() - started)
    return {"rows": n_rows, "wall": sum(seconds), "seconds": seconds}


def soak(
    federation: LiveFederation, client: Federation, n_runs: int, tell: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Footprints of all processes during many trainings, the first look after the warm-up."""
    warm_up = min(N_WARM_UP_RUNS, n_runs // 2)
    every = max(1, (n_runs - warm_up) // N_LOOKS)
    looks = []
    for number in range(1, n_runs + 1):
        train(client, SOAK_FOREST, SEED + number)
        if number >= warm_up and (number - warm_up) % every == 0:
            footprints = {role.home.name: role.footprint() for role in federation.roles}
            looks.append(
                {
                    "runs": number,
                    "resident_bytes": {n: f.resident_bytes for n, f in footprints.items()},
                    "files": {n: f.n_files for n, f in footprints.items()},
                }
            )
            tell(number)
    return looks
