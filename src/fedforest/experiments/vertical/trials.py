"""Likely settings of Federated Forest's Tables 3 and 4, which name none: tried one by one.

Where a printed value is further from ours than both spread, these say which setting comes to it.
"""

from collections.abc import Mapping
from typing import Any

from fedforest.experiments.beside import Printed, tell_mean
from fedforest.experiments.data.catalogue import DATA_SETS
from fedforest.experiments.findings import NOTHING, Finding
from fedforest.experiments.record import Record
from fedforest.experiments.vertical.methods import (
    N_TREES,
    Division,
    predict_linearly,
    score_forest,
)
from fedforest.experiments.vertical.printed import printed

_PER_TREE = {"feature_sampling": "tree"}
FOREST_TRIALS: Mapping[str, Mapping[str, Any]] = {
    "depth 2": {"max_depth": 2},
    "depth 4": {"max_depth": 4},
    "depth 6": {"max_depth": 6},
    "10 trees": {"n_estimators": 10},
    "per tree": _PER_TREE,
    "per tree, hard": {**_PER_TREE, "voting": "hard"},
    "per tree, depth 4": {**_PER_TREE, "max_depth": 4},
    "per tree, depth 6": {**_PER_TREE, "max_depth": 6},
    "per tree, depth 6, hard": {**_PER_TREE, "max_depth": 6, "voting": "hard"},
    "per tree, depth 6, 10 trees": {**_PER_TREE, "max_depth": 6, "n_estimators": 10},
    "per tree, half of the columns, depth 6": {**_PER_TREE, "max_depth": 6, "max_features": 0.5},
}
LINEAR_TRIALS: dict[str, Mapping[str, Any]] = {
    "C = 0.001": {"C": 0.001},
    "2 steps": {"max_iter": 2},
    "least squares": {"by_least_squares": True},
}
RIDGE_TRIALS: dict[str, Mapping[str, Any]] = {
    "alpha = 100": {"alpha": 100.0},
    "alpha = 1000": {"alpha": 1000.0},
}
TRIED_METHODS: Mapping[str, tuple[str, ...] | None] = {
    "RF1": ("party_1",),
    "RF2": ("party_2",),
    "FF": None,
}


def trials_of(name: str) -> dict[str, tuple[str, ...]]:
    """Return the trials of each method on a data set; of made tables there is nothing to find."""
    if DATA_SETS[name].is_made:
        return {}
    forests = tuple(FOREST_TRIALS)
    if DATA_SETS[name].task == "regression":
        forests = tuple(trial for trial in forests if not trial.endswith("hard"))
    trials = dict.fromkeys(TRIED_METHODS, forests)
    target = printed(name, "F-LR")
    is_number = DATA_SETS[name].task == "regression"
    if target is not None:
        trials["F-LR"] = tuple(RIDGE_TRIALS if is_number else LINEAR_TRIALS)
    return trials


def try_setting(division: Division, method: str, trial: str, n_jobs: int) -> float:
    """Train one method with one likely setting and score it."""
    if method == "F-LR":
        return division.score(predict_linearly(division, **(LINEAR_TRIALS | RIDGE_TRIALS)[trial]))
    chosen = {
        "n_estimators": N_TREES,
        "max_features": "sqrt",
        "random_state": division.seed,
        "n_jobs": n_jobs,
        **FOREST_TRIALS[trial],
    }
    return score_forest(division, chosen, TRIED_METHODS[method])


def tell_nearest(record: Record, name: str, method: str) -> str:
    """Say which tried setting comes nearest to the printed value, and how near."""
    target = printed(name, method)
    tried = "FF" if method == "NonFF" else method  # the same forest on the pooled columns
    measured = {
        trial: values
        for trial in trials_of(name).get(tried, ())
        if len(values := record.values(name, tried, trial))
    }
    if target is None or not measured:
        return "settings not tried yet"
    nearest = min(measured, key=lambda trial: abs(measured[trial].mean() - target.mean))
    ours = tell_mean(record, (name, tried, nearest), digits=3)
    if _reaches(target, measured[nearest]):
        return f"{nearest} gives {ours}, as printed"
    return f"of the tried settings, {nearest} comes nearest: {ours}"


def _reaches(target: Printed, values: Any) -> bool:
    spread = max(float(values.std(ddof=1)) if len(values) > 1 else 0.0, target.spread or 0.005)
    return bool(abs(values.mean() - target.mean) <= 2 * spread)


def table_of_trials(record: Record, names: list[str]) -> list[Finding]:
    """Return tables of all that was tried: forests, and linear models."""
    found = []
    for title, methods, trials in (
        ("Likely settings of the paper's forests", tuple(TRIED_METHODS), FOREST_TRIALS),
        ("Likely settings of the paper's F-LR", ("F-LR",), LINEAR_TRIALS),
        ("Penalties of linear regression", ("F-LR",), RIDGE_TRIALS),
    ):
        rows = []
        for name in names:
            for method in methods:
                told = [tell_mean(record, (name, method, trial), digits=3) for trial in trials]
                target = printed(name, method)
                if any(cell != NOTHING for cell in told) and target is not None:
                    rows.append([name, method, target.tell(), *told])
        if rows:
            found.append(Finding(title, ["data set", "method", "printed", *trials], rows, _NOTE))
    return found


_NOTE = (
    "Unless they say otherwise, forests have 100 trees, grown out, of sqrt of the columns at a "
    "node and soft votes; *per tree*: these columns are drawn once for each tree, as in the "
    "paper's Algorithm 2; *hard*: each tree votes for one class, as in the paper. Linear models: a "
    "strong penalty, training stopped after two steps, and least squares on the class, which is "
    "what a Taylor series makes of logistic regression."
)
