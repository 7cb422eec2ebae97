"""Shows that a change of structure changed no result: trains a fixed list and compares hashes.

    python benchmarks/identity.py --write FILE      record the hashes of this code
    python benchmarks/identity.py --against FILE    fail, naming the trainings that differ

PYTHONPATH=<checkout>/src chooses the code. For every training it keeps hashes of the model's files,
of the predictions for unseen rows, and of importances and out-of-bag votes; and, unhashed, the
exchanges and the bytes that each party sent. `results/identity.json` holds those of the commit that
it names. Tables consist of small binary fractions, so that sums over them are exact and forests are
the same on every machine. Two kinds of trainings are compared on one machine only, and have
`is_exact=False`: those with noise, whose probabilities come from the C library's exponential and
logarithm, and linear models, whose sums are added up in the order that BLAS chooses.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256, shake_256
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import fedforest
from benchmarks.checkout import find_definition, find_method, read_commit
from benchmarks.measure import ROOT

RECORDED = ROOT / "benchmarks" / "results" / "identity.json"
SEED = 7
N_TRAIN, N_TEST, N_COLUMNS = 600, 200, 8
N_TREES = 8
MANY_CLASSES = 11
COLOURS = np.array(["red", "green", "blue", "black", "white", "grey"])
PARTIES = ("bank", "shop", "clinic", "school")

Fingerprint = dict[str, Any]

# Internal names that a restructuring may change: the present spelling first, further ones after it.
POOLED_FOREST = ("PooledForest",)
POOLED_EXTRA_TREES = ("PooledExtraTrees",)
WRITE_MODEL = ("to_bytes", "to_shares", "to_partial_forests", "to_files")
DRAW_RESPONSES = ("draw", "draw_responses", "randomize")


class Rows(NamedTuple):
    """A table by columns, and one target of each kind."""

    columns: Mapping[str, NDArray[Any]]
    two_classes: NDArray[Any]
    many_classes: NDArray[Any]
    numbers: NDArray[Any]
    weights: NDArray[Any]


@cache
def draw_rows(n_rows: int, seed: int) -> Rows:
    """Rows from integers alone, which one seed gives on every machine; targets follow columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2048, 2048, (n_rows, N_COLUMNS)) / 256.0
    X[:, 5] = np.round(X[:, 5])  # few values, so that bins are not all alike
    colour = rng.integers(0, len(COLOURS), n_rows)
    noise = rng.integers(-512, 512, n_rows) / 256.0
    score = X[:, 0] + np.where(X[:, 3] > 0.0, X[:, 6], -X[:, 2]) + colour % 3 + noise
    columns = {f"x{column}": X[:, column].astype(np.float32) for column in range(N_COLUMNS)}
    return Rows(
        columns | {"colour": COLOURS[colour]},
        np.where(score > 1.0, "yes", "no"),
        np.floor(score / 4.0).astype(np.int64) % MANY_CLASSES,
        score,
        rng.integers(1, 9, n_rows) / 4.0,
    )


TRAIN, TEST = draw_rows(N_TRAIN, SEED), draw_rows(N_TEST, SEED + 1)


def numbers_only(rows: Rows) -> NDArray[Any]:
    """The numeric columns as one array."""
    return np.column_stack([values for name, values in rows.columns.items() if name != "colour"])


def with_gaps(rows: Rows) -> NDArray[Any]:
    """The numeric columns with every seventh value of some of them missing."""
    X = numbers_only(rows)
    for column in (0, 3, 6):
        X[column::7, column] = np.nan
    return X


def with_categories(rows: Rows) -> pd.DataFrame:
    """All columns by name, with text among them."""
    return pd.DataFrame(rows.columns)


class Trained(NamedTuple):
    """A fitted estimator, and unseen rows in the form that its `fit` took."""

    estimator: Any
    unseen: Any


@dataclass(frozen=True)
class Training:
    """One entry of the list."""

    name: str
    train: Callable[[], Trained]
    is_exact: bool = True  # the same on every machine

    def take_fingerprint(self) -> Fingerprint:
        estimator, unseen = self.train()
        answers = [
            getattr(estimator, method)(unseen)
            for method in ("predict", "predict_proba", "apply")
            if hasattr(estimator, method)
        ]
        seen = ("feature_importances_", "oob_curve_", "oob_decision_function_", "oob_prediction_")
        return {
            "model": hash_parts(_model_parts(estimator)),
            "predictions": hash_parts(answers),
            "attributes": hash_parts(getattr(estimator, name, None) for name in seen),
            "exchanges": getattr(estimator, "n_exchanges_", None),
            "bytes_sent": getattr(estimator, "bytes_sent_", None),
        }


def _model_parts(estimator: Any) -> Iterator[Any]:
    """Files of the model, by role where each role has its own; coefficients of a linear model."""
    if hasattr(estimator, "coef_"):
        yield from (estimator.coef_, estimator.intercept_)
        return
    files = getattr(estimator, find_method(estimator, *WRITE_MODEL))()
    if isinstance(files, bytes):
        yield files
        return
    for role in sorted(files):
        yield from (role.encode(), files[role])


def hash_parts(parts: Any) -> str:
    """One hash over bytes and arrays, in which neither type nor shape nor order may differ."""
    total = sha256()
    for part in parts:
        if not isinstance(part, bytes):
            array = np.asarray(part)
            kind = np.dtype("U") if array.dtype.kind in "OU" else array.dtype
            total.update(f"{kind.kind}{array.shape}".encode())
            text = "\0".join(map(str, array.ravel())).encode()
            part = text if kind.kind == "U" else np.ascontiguousarray(array).tobytes()  # noqa: PLW2901 - as bytes
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


@contextmanager
def fixed_label_noise() -> Iterator[None]:
    """Let randomized response draw the same noise in every process; a user's never repeats."""
    response = fedforest.RandomizedResponse
    name = find_method(response, *DRAW_RESPONSES)
    draw = getattr(response, name)

    def draw_fixed(self: Any, codes: Any, n_classes: int, *_: Any, **__: Any) -> Any:
        return draw(self, codes, n_classes, lambda n: shake_256(b"identity").digest(n))

    setattr(response, name, draw_fixed)
    try:
        yield
    finally:
        setattr(response, name, draw)


def _columns_by_party(table: Any, n_parties: int) -> dict[str, Any]:
    """Consecutive columns for each party."""
    parts = np.array_split(np.arange(table.shape[1]), n_parties)
    is_array = isinstance(table, np.ndarray)
    divided = [table[:, part] if is_array else table.iloc[:, part] for part in parts]
    return dict(zip(PARTIES[:n_parties], divided, strict=True))


def _rows_by_party(table: Any, n_parties: int) -> dict[str, Any]:
    """The rows of each party, who hold different numbers of them."""
    owner = np.arange(N_TRAIN) ** 2 % 13 % n_parties
    return {party: table[owner == place] for place, party in enumerate(PARTIES[:n_parties])}


def vertical(
    task: str = "two_classes",
    table: Callable[[Rows], Any] = numbers_only,
    *,
    n_parties: int = 2,
    is_weighted: bool = False,
    grow_on_to: int | None = None,
    **parameters: Any,
) -> Callable[[], Trained]:
    """A federated forest over columns; `grow_on_to` trees in a second fit by warm start."""

    def train() -> Trained:
        face = "Regressor" if task == "numbers" else "Classifier"
        forest = getattr(fedforest, f"VerticalForest{face}")(
            **{"n_estimators": N_TREES, "random_state": SEED, "n_jobs": 2} | parameters
        )
        X, unseen = (_columns_by_party(table(rows), n_parties) for rows in (TRAIN, TEST))
        weights = TRAIN.weights if is_weighted else None
        with fixed_label_noise():
            forest.fit(X, getattr(TRAIN, task), sample_weight=weights)
            if grow_on_to is not None:
                forest.set_params(n_estimators=grow_on_to)
                forest.fit(X, getattr(TRAIN, task), sample_weight=weights)
        return Trained(forest, unseen)

    return train


def horizontal(
    task: str = "two_classes",
    table: Callable[[Rows], Any] = numbers_only,
    *,
    n_parties: int = 3,
    is_weighted: bool = False,
    **parameters: Any,
) -> Callable[[], Trained]:
    """Federated extra-trees over rows; the random state seeds points, masks and noise as well."""

    def train() -> Trained:
        face = "Regressor" if task == "numbers" else "Classifier"
        forest = getattr(fedforest, f"HorizontalExtraTrees{face}")(
            **{"n_estimators": N_TREES, "random_state": SEED, "n_jobs": 2} | parameters
        )
        X, y, weights = (
            _rows_by_party(part, n_parties)
            for part in (table(TRAIN), getattr(TRAIN, task), TRAIN.weights)
        )
        forest.fit(X, y, sample_weight=weights if is_weighted else None)
        return Trained(forest, table(TEST))

    return train


def pooled(names: tuple[str, ...], task: str, **more: Any) -> Callable[[], Trained]:
    """A forest for classes on one table, without federation."""

    def train() -> Trained:
        forest = find_definition(*names)(n_estimators=N_TREES, random_state=SEED, n_jobs=2, **more)
        return Trained(forest.fit(with_gaps(TRAIN), getattr(TRAIN, task)), with_gaps(TEST))

    return train


def linear(name: str, task: str) -> Callable[[], Trained]:
    """A linear model over columns, text among them."""

    def train() -> Trained:
        X, unseen = (_columns_by_party(with_categories(rows), 3) for rows in (TRAIN, TEST))
        return Trained(getattr(fedforest, name)().fit(X, getattr(TRAIN, task)), unseen)

    return train


def _list_trainings() -> Iterator[Training]:
    leaf_rules: dict[str, Any] = {
        "min_samples_leaf": 5,
        "min_impurity_decrease": 0.002,
        "max_samples": 0.5,
    }
    vertical_forests = {
        "two classes": vertical(),
        "one party, depth 6": vertical(n_parties=1, max_depth=6),
        "four parties, label at the third": vertical(n_parties=4, label_party=PARTIES[2]),
        "entropy, leaf rules, few bins": vertical(criterion="entropy", max_bins=16, **leaf_rules),
        "many classes": vertical("many_classes"),
        "many classes, entropy, weights": vertical(
            "many_classes", criterion="entropy", is_weighted=True
        ),
        "class weights, hard votes": vertical(class_weight="balanced", voting="hard"),
        "categories": vertical(table=with_categories, n_parties=3),
        "missing values, no bootstrap": vertical(table=with_gaps, bootstrap=False),
        "out-of-bag": vertical("many_classes", oob_score=True, n_estimators=40, max_depth=5),
        "early stopping": vertical(
            early_stopping=True, n_estimators=60, n_iter_no_change=3, tol=0.01
        ),
        "warm start": vertical(warm_start=True, grow_on_to=N_TREES + 4),
        "columns drawn per tree": vertical(feature_sampling="tree", max_features=0.5),
        "randomized response": vertical(
            "many_classes", labels=fedforest.RandomizedResponse(epsilon=2.0)
        ),
        "regression": vertical("numbers"),
        "regression, weights, missing values": vertical(
            "numbers", with_gaps, is_weighted=True, max_features=0.5, max_depth=7
        ),
    }
    horizontal_forests = {
        "two classes": horizontal(),
        "many classes, entropy": horizontal("many_classes", criterion="entropy"),
        "regression": horizontal("numbers"),
        "weights, bootstrap": horizontal(is_weighted=True, bootstrap=True),
        "class weights, hard votes": horizontal(class_weight="balanced", voting="hard"),
        "categories, columns drawn per tree": horizontal(
            table=with_categories, feature_sampling="tree", max_features=0.5
        ),
        "missing values, masked, participation by tree": horizontal(
            table=with_gaps, n_parties=4, participation=0.5, aggregation=fedforest.Masked(k=2)
        ),
        "ring, participation by step": horizontal(
            n_parties=4,
            participation=0.5,
            participation_scope="step",
            aggregation=fedforest.Ring(),
        ),
        "regression, Shamir, participation by run": horizontal(
            "numbers",
            n_parties=4,
            participation=0.75,
            participation_scope="run",
            aggregation=fedforest.Shamir(threshold=3),
        ),
        "local privacy": horizontal(
            "many_classes", privacy=fedforest.LocalDP(keep=0.9), max_depth=4
        ),
        "global privacy, masked": horizontal(
            privacy=fedforest.GlobalDP(epsilon_query=2.0),
            max_depth=4,
            aggregation=fedforest.Masked(),
        ),
        "regression, global privacy": horizontal(
            "numbers",
            privacy=fedforest.GlobalDP(epsilon_query=1.0, target_bounds=(-20.0, 20.0)),
            max_depth=4,
        ),
    }
    for system, forests in (("vertical", vertical_forests), ("horizontal", horizontal_forests)):
        for name, train in forests.items():
            is_noisy = name == "randomized response" or "privacy" in name
            yield Training(f"{system}: {name}", train, is_exact=not is_noisy)
    yield Training("pooled: forest", pooled(POOLED_FOREST, "two_classes", oob_score=True))
    yield Training("pooled: extra-trees", pooled(POOLED_EXTRA_TREES, "many_classes"))
    for name, task in (
        ("VerticalLogisticRegression", "two_classes"),
        ("VerticalLinearRegression", "numbers"),
    ):
        yield Training(f"linear: {name}", linear(name, task), is_exact=False)


TRAININGS = {training.name: training for training in _list_trainings()}


def find_differences(recorded: Mapping[str, Fingerprint], found: Mapping[str, Fingerprint]) -> str:
    """One line for each training that differs and what of it does; empty where none does."""
    lines = []
    for name, fingerprint in found.items():
        before = recorded.get(name, {})
        differing = [part for part in fingerprint if fingerprint[part] != before.get(part)]
        if differing:
            lines.append(f"{name}: {', '.join(differing)}" if before else f"{name}: not recorded")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Train, then write or compare; 1 where a training differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="record the hashes here")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with this record")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=TRAININGS, default=TRAININGS)
    chosen = parser.parse_args(arguments)
    found: dict[str, Fingerprint] = {}
    for name in chosen.only:
        started = time.perf_counter()
        found[name] = TRAININGS[name].take_fingerprint()
        print(f"{found[name]['model'][:12]}  {time.perf_counter() - started:5.1f} s  {name}")
    if chosen.write is not None:
        record = {"commit": read_commit(), "numpy": np.__version__, "trainings": found}
        chosen.write.write_text(json.dumps(record, indent=1) + "\n")
    if chosen.against is None:
        return 0
    recorded = json.loads(chosen.against.read_text())
    differences = find_differences(recorded["trainings"], found)
    if differences:
        print(f"differ from commit {recorded['commit']}:\n{differences}", file=sys.stderr)
        return 1
    print(f"{len(found)} trainings equal those of commit {recorded['commit']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
