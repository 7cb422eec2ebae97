"""What the benchmarks train on: synthetic tables of a stated size and, where present, real ones.

A synthetic table depends on its kind and its size alone, always from seed 0, and is float32. Real
tables come from the folder named by FEDFOREST_DATA, else from `../shared/data` beside the project;
they are never fetched.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import train_test_split

from benchmarks.measure import ROOT

SEED = 0
N_COLUMNS = 40
N_INFORMATIVE = 20
QUICK_ROWS = 2_000
QUICK_TREES = 4
N_CLASSES = {"binary": 2, "multiclass": 10, "regression": 1}


@dataclass(frozen=True)
class ForestSettings:
    """What every library is asked to grow, in scikit-learn's words."""

    kind: str
    n_trees: int
    max_depth: int | None
    max_features: str | float = "sqrt"

    @property
    def task(self) -> str:
        return "regression" if self.kind == "regression" else "classification"


@dataclass(frozen=True)
class SpeedTask:
    """One training to time; `target` is how many times scikit-learn's speed is aimed at."""

    name: str
    n_rows: int
    forest: ForestSettings
    target: float
    repeats: int = 5

    def shrunk(self) -> "SpeedTask":
        """The same task, small enough for a test."""
        forest = replace(self.forest, n_trees=QUICK_TREES)
        return replace(self, n_rows=QUICK_ROWS, forest=forest)

    @property
    def takes_rivals_minutes(self) -> bool:
        """Whether boosting libraries in forest mode need minutes for one fit, as seen here."""
        is_large_and_deep = self.forest.max_depth is None and self.n_rows > 10_000
        return is_large_and_deep and self.forest.kind != "binary"

    @property
    def title(self) -> str:
        depth = self.forest.max_depth
        grown = "grown out" if depth is None else f"depth {depth}"
        return f"{self.forest.kind}, {self.n_rows:,} rows, {self.forest.n_trees} trees, {grown}"


@dataclass(frozen=True)
class RealTask:
    """A table people know; `tolerance` is how far behind scikit-learn we may score on it.

    Classification: difference of accuracy. Regression: relative difference of RMSE.
    """

    name: str
    file: str
    forest: ForestSettings
    tolerance: float
    n_seeds: int


class Split(NamedTuple):
    """Rows to train on and rows to score on, 80 to 20."""

    X_train: Any
    X_test: Any
    y_train: Any
    y_test: Any


def _speed_tasks() -> tuple[SpeedTask, ...]:
    depths: tuple[tuple[str, int | None, float], ...] = (
        ("depth-6", 6, 35.0),
        ("depth-10", 10, 30.0),
        ("grown-out", None, 15.0),
    )
    binary = [
        SpeedTask(f"binary-100k-{name}", 100_000, ForestSettings("binary", 20, depth), target)
        for name, depth, target in depths
    ]
    binary += [
        SpeedTask("binary-5k-grown-out", 5_000, ForestSettings("binary", 100, None), 10.0),
        SpeedTask("binary-1m-depth-10", 1_000_000, ForestSettings("binary", 20, 10), 40.0, 2),
    ]
    others = [
        SpeedTask(f"{kind}-100k-{name}", 100_000, ForestSettings(kind, 20, depth), target / 2)
        for kind in ("multiclass", "regression")
        for name, depth, target in depths
    ]
    return (*binary, *others)


SPEED_TASKS = _speed_tasks()
REAL_TASKS = (
    RealTask(
        "superconduct", "superconduct", ForestSettings("regression", 100, None, 1 / 3), 0.02, 5
    ),
    RealTask("letter", "letter", ForestSettings("multiclass", 100, None), 0.005, 5),
    RealTask("kddcup99", "kddcup99_10pct", ForestSettings("multiclass", 20, None), 0.005, 3),
)


@lru_cache(maxsize=1)  # tasks that differ in depth alone follow each other
def make_split(kind: str, n_rows: int, n_columns: int = N_COLUMNS) -> Split:
    """The synthetic table of this kind and size, divided; half of few columns are informative."""
    n_informative = min(N_INFORMATIVE, n_columns // 2)
    if kind == "regression":
        X, y = make_regression(
            n_samples=n_rows,
            n_features=n_columns,
            n_informative=n_informative,
            random_state=SEED,
        )
    else:
        X, y = make_classification(
            n_samples=n_rows,
            n_features=n_columns,
            n_informative=n_informative,
            n_classes=N_CLASSES[kind],
            n_clusters_per_class=2 if kind == "binary" else 1,
            random_state=SEED,
        )
    return Split(*train_test_split(X.astype(np.float32), y, test_size=0.2, random_state=SEED))


def data_folder() -> Path:
    """Where real tables are looked for."""
    return Path(os.environ.get("FEDFOREST_DATA", ROOT.parent / "shared" / "data"))


def read_real(file: str) -> Split | str:
    """A real table divided, its columns as they are stored; or the reason why there is none."""
    path = data_folder() / f"{file}.parquet"
    if not path.exists():
        return f"{path.name} is not in the data folder; FEDFOREST_DATA may name another"
    try:
        import pandas as pd  # noqa: PLC0415  needed for real tables only
    except ImportError:
        return "pandas is not installed; `make bench` installs it"
    frame = pd.read_parquet(path)
    target = frame.pop("target").to_numpy()
    if target.dtype.kind not in "biuf":
        target = target.astype(str)
    return Split(*train_test_split(frame, target, test_size=0.2, random_state=SEED))


def as_codes(split: Split) -> Split:
    """The same rows for a library without categories: text as codes in order of the alphabet."""
    train, test = split.X_train.copy(), split.X_test.copy()
    for name in train.columns:
        if train[name].dtype.kind in "biuf":
            continue
        known = np.unique(np.concatenate([train[name].astype(str), test[name].astype(str)]))
        for frame in (train, test):
            frame[name] = np.searchsorted(known, frame[name].astype(str))
    X_train, X_test = (frame.to_numpy(np.float32) for frame in (train, test))
    return Split(X_train, X_test, split.y_train, split.y_test)
