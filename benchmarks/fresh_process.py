"""What only a process of its own can show: peak memory of one fit, seconds of the first fit.

Run as `python -m benchmarks.fresh_process` by `measure.run_fresh`: a request as JSON on the input,
the answer as JSON on the last line of the output.
"""

import ctypes
import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import BY_NAME, ENGINE, OURS
from benchmarks.measure import peak_growth, timed
from benchmarks.tasks import N_CLASSES, N_COLUMNS, SEED, ForestSettings

WARM_UP_ROWS = 1_000


def peak_of_fit(request: dict[str, Any]) -> dict[str, Any]:
    """Peak memory of the named contestant's fit on the arrays in a folder.

    A small fit before it loads libraries, kernels and threads, which are no part of the answer.
    """
    folder = Path(request["folder"])
    X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    settings = ForestSettings(**request["settings"])
    build = BY_NAME[request["contestant"]].build
    build(replace(settings, n_trees=2), SEED).fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    forest = build(settings, SEED)
    _return_free_memory()
    peak = peak_growth(lambda: forest.fit(X, y))
    if peak is None:
        return {"reason": "neither the kernel nor psutil tells the resident memory"}
    return {"peak_bytes": peak.n_bytes, "method": peak.method, "table_bytes": X.nbytes}


def _return_free_memory() -> None:
    """Give freed memory back, or the fit would reuse it unseen. Only glibc keeps much of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def first_fit(request: dict[str, Any]) -> dict[str, Any]:
    """Seconds to import our engine and of its first and second small fit and first prediction."""
    settings = ForestSettings(**request["settings"])
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(WARM_UP_ROWS, N_COLUMNS)).astype(np.float32)
    n_classes = N_CLASSES[settings.kind]
    y = X[:, 0] if settings.kind == "regression" else rng.integers(n_classes, size=len(X))
    _, loading = timed(lambda: import_module(ENGINE))
    forest = BY_NAME[OURS].build(settings, SEED)
    _, first = timed(lambda: forest.fit(X, y))
    _, prediction = timed(lambda: forest.predict(X))
    _, second = timed(lambda: forest.fit(X, y))
    return {
        "import": loading.wall,
        "first_fit": first.wall,
        "first_prediction": prediction.wall,
        "second_fit": second.wall,
    }


ANSWERS = {"peak_of_fit": peak_of_fit, "first_fit": first_fit}

if __name__ == "__main__":
    asked = json.load(sys.stdin)
    print(json.dumps(ANSWERS[asked["question"]](asked)))
