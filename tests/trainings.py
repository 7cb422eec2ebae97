"""Trainings and predictions of every kind, on a few rows: what kernels are compiled for.

`tests.signatures` runs them to record the calls of kernels that `signatures.json` lists, and a test
runs them to see that no other is made. Add what a new option, protocol or kind of table calls.
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fedforest import (
    Encrypted,
    GlobalDP,
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    LocalDP,
    Masked,
    RandomizedResponse,
    Ring,
    Shamir,
    VerticalForestClassifier,
    VerticalForestRegressor,
    VerticalLinearRegression,
    VerticalLogisticRegression,
)
from fedforest.protocol.vertical.prediction.party import PredictingParty
from fedforest.tree.files.forests import decode_forest
from fedforest.tree.shards.sharded_rows import ShardedRows
from fedforest.web.serving.model import ServedModel
from tests.tree.shards.engines import EngineHere

N_ROWS = 400
N_COLUMNS = 6
MIXED = -3  # among `tables`: numbers and words

Table = Any
Target = NDArray[Any]


def draw_rows(
    n_rows: int = N_ROWS, n_columns: int = N_COLUMNS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    return X, X[:, 0] + X[:, 3] + 0.1 * rng.normal(size=n_rows)


def two_classes(numbers: NDArray[np.float64]) -> Target:
    return numbers > 0.0


def classes(numbers: NDArray[np.float64], n_classes: int = 3) -> Target:
    return np.digitize(numbers, np.linspace(-1.5, 1.5, n_classes - 1))


def tables(X: NDArray[Any]) -> list[Table]:
    """The same columns in every form that a table may have."""
    as_float32, with_gaps = X.astype(np.float32), np.where(np.abs(X) > 2.0, np.nan, X)
    integers = np.round(4.0 * X).astype(np.int64)
    read_only = X.copy()
    read_only.flags.writeable = False
    frame = pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
    mixed = frame.assign(
        x1=pd.Series(np.where(X[:, 1] > 0.0, "warm", "a colder one")).astype("category"),
        x2=np.where(X[:, 2] > 0.5, "up", "down"),
        x3=X[:, 3] > 0.0,
        x4=integers[:, 4].astype(np.int8),
        x5=pd.array(integers[:, 5], dtype="Int64"),
    )
    return [
        X,
        np.asfortranarray(X),
        X[:, ::-1],
        np.vstack([X, X])[::2],
        read_only,
        as_float32,
        np.asfortranarray(as_float32),
        with_gaps,
        integers,
        integers.astype(np.uint8),
        X > 0.0,
        frame,
        frame.astype(np.float32),
        mixed,
        np.where(X > 0.0, "yes", "no"),
        pa.table(frame),
    ]


def by_columns(kind: Callable[..., Any], X: Table, y: Target, **options: Any) -> None:
    """Train over columns, and use the model in every way."""
    weights = options.pop("sample_weight", None)
    forest = kind(**{"n_estimators": 20, "parties": 2, "random_state": 0, **options})
    forest.fit(X, y, sample_weight=weights)
    use(forest, X)
    again = type(forest).from_partial_forests(forest.to_partial_forests())
    use(again, X)


def by_rows(kind: Callable[..., Any], X: Table, y: Target, **options: Any) -> None:
    """Train over rows, and use the model in every way."""
    weights = options.pop("sample_weight", None)
    party = np.arange(len(y)) % options.pop("n_parties", 3)
    forest = kind(**{"n_estimators": 4, "random_state": 0, **options})
    forest.fit(X, y, sample_weight=weights, party=party)
    use(forest, X)
    again = type(forest).from_bytes(forest.to_bytes())
    use(again, X)


def take_first(X: Table) -> Table:
    return X.iloc[:1] if hasattr(X, "iloc") else X[:1]


def use(forest: Any, X: Table) -> None:
    for some in (X, take_first(X)):
        forest.predict(some)
        forest.apply(some)
        if hasattr(forest, "predict_proba"):
            forest.predict_proba(some)


CLASSIFIERS = (VerticalForestClassifier, HorizontalExtraTreesClassifier)
REGRESSORS = (VerticalForestRegressor, HorizontalExtraTreesRegressor)


def usual(
    over: Callable[..., None], kind: Callable[..., Any], choose: Callable[..., Target]
) -> None:
    """What most people do first: numbers, no options."""
    for n_columns in (N_COLUMNS, 30):
        X, numbers = draw_rows(n_columns=n_columns)
        over(kind, X, choose(numbers))
        if over is by_rows:
            over(kind, X, choose(numbers), aggregation=Masked())


def predictions(over: Callable[..., None]) -> None:
    """Models from files, in a process that has trained none."""
    kinds = CLASSIFIERS[over is by_rows], REGRESSORS[over is by_rows]
    choices: tuple[Callable[..., Target], ...] = (classes, two_classes, np.asarray)
    X, _ = draw_rows()
    with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
        for kind, choose in zip((kinds[0], *kinds), choices, strict=True):
            file = elsewhere.submit(train_and_store, kind, choose).result()
            use(kind.from_bytes(file) if over is by_rows else kind.from_partial_forests(file), X)


def train_and_store(kind: Callable[..., Any], choose: Callable[..., Target]) -> Any:
    X, numbers = draw_rows()
    if kind in (VerticalForestClassifier, VerticalForestRegressor):
        return kind(30, parties=2, random_state=0).fit(X, choose(numbers)).to_partial_forests()
    return kind(4, random_state=0).fit(X, choose(numbers)).to_bytes()


def predictions_of_services() -> None:
    """Predictions of parties in processes of their own, which compare turns with what they said."""
    X, numbers = draw_rows()
    with patch("fedforest.estimators.vertical.model.PredictingParty", doubting_party):
        for y in (two_classes(numbers), classes(numbers)):
            for prediction in ("auto", "one_round", 1, 2):
                by_columns(VerticalForestClassifier, X, y, prediction=prediction)


def doubting_party(*means: Any, believes_turns: bool) -> PredictingParty:
    assert believes_turns
    return PredictingParty(*means)


def every_table() -> None:
    X, numbers = draw_rows()
    for table in tables(X):
        by_columns(VerticalForestClassifier, table, two_classes(numbers), max_depth=3)
        by_rows(HorizontalExtraTreesClassifier, table, two_classes(numbers), max_depth=3)
    for over, kind in (
        (by_columns, VerticalForestRegressor),
        (by_rows, HorizontalExtraTreesRegressor),
    ):
        for table in tables(X)[-3:-1]:
            over(kind, table, numbers)


def every_target() -> None:
    X, numbers = draw_rows(1200)
    named = np.array(["low", "mid", "high"])[classes(numbers)]
    for y in (named, named.astype(object), classes(numbers, 26), classes(numbers, 300)):
        by_columns(VerticalForestClassifier, X, y, max_depth=6)
        by_rows(HorizontalExtraTreesClassifier, X, y, max_depth=6)
    for y in (np.round(numbers), np.round(numbers).astype(np.int64), numbers.astype(np.float32)):
        by_columns(VerticalForestRegressor, X, y, max_depth=6)
        by_rows(HorizontalExtraTreesRegressor, X, y, max_depth=6)


def every_option_of_columns() -> None:
    X, numbers = draw_rows()
    weights = np.abs(X[:, 1]) + 0.5
    forests: list[dict[str, Any]] = [
        {"sample_weight": weights},
        {"class_weight": "balanced"},
        {"criterion": "entropy", "min_samples_leaf": 5},
        {"max_features": None, "bootstrap": False},
        {"max_features": 1, "feature_sampling": "tree"},
        {"oob_score": True},
        {"early_stopping": True},
        {"min_weight_fraction_leaf": 0.1},
        {"min_impurity_decrease": 0.01},
        {"max_samples": 0.5, "voting": "hard"},
        {"labels": RandomizedResponse(epsilon=2.0)},
        {"prediction": "one_round"},
        {"prediction": "classical"},
        {"prediction": 2},
        {"prediction": 1},
        {"parties": 1},
        {"parties": 6},
        {"max_bins": 16},
        {"n_jobs": 1},
    ]
    for options in forests:
        for y in (two_classes(numbers), classes(numbers)):
            by_columns(VerticalForestClassifier, X, y, **options)
        if not {"class_weight", "voting", "labels"} & set(options):
            options.pop("criterion", None)
            by_columns(VerticalForestRegressor, X, numbers, **options)
    by_columns(VerticalForestRegressor, X, np.abs(numbers), criterion="poisson")
    grow_on(VerticalForestClassifier, X, two_classes(numbers))
    grow_on(VerticalForestRegressor, X, numbers)


def grow_on(kind: Callable[..., Any], X: Table, y: Target, **options: Any) -> None:
    forest = kind(
        n_estimators=20, parties=2, warm_start=True, oob_score=True, random_state=0, **options
    )
    forest.fit(X, y).set_params(n_estimators=30).fit(X, y)
    forest.complete_model(dict.fromkeys(forest.parties_, True))
    forest.prediction_cost(X)


ENCRYPTED: dict[str, Any] = {"labels": Encrypted(), "n_estimators": 3, "max_depth": 4}


def encrypted_labels() -> None:
    """Few trees and rows: what is encrypted takes long."""
    X, numbers = draw_rows(120)
    for y in (two_classes(numbers), classes(numbers)):
        by_columns(VerticalForestClassifier, X, y, **ENCRYPTED)
    by_columns(VerticalForestRegressor, X, numbers, **ENCRYPTED)


def every_option_of_encrypted_labels() -> None:
    X, numbers = draw_rows(120)
    with_gaps = np.where(X > 1.5, np.nan, X)
    weights = np.abs(X[:, 1]) + 0.5
    forests: list[dict[str, Any]] = [
        {"sample_weight": weights},
        {"class_weight": "balanced"},
        {"criterion": "entropy", "min_samples_leaf": 5},
        {"max_features": None, "bootstrap": False},
        {"max_features": 1, "feature_sampling": "tree"},
        {"oob_score": True, "n_estimators": 12},
        {"early_stopping": True},
        {"min_weight_fraction_leaf": 0.1},
        {"max_samples": 0.5, "voting": "hard"},
        {"prediction": "one_round"},
        {"prediction": 1},
        {"parties": 1},
        {"max_bins": 16},
    ]
    for options in forests:
        for y in (two_classes(numbers), classes(numbers)):
            by_columns(VerticalForestClassifier, with_gaps, y, **{**ENCRYPTED, **options})
        if not {"class_weight", "voting"} & set(options):
            options.pop("criterion", None)
            by_columns(VerticalForestRegressor, X, numbers, **{**ENCRYPTED, **options})
    by_columns(VerticalForestRegressor, X, np.abs(numbers), criterion="poisson", **ENCRYPTED)
    by_columns(VerticalForestClassifier, X, classes(numbers, 26), **ENCRYPTED)
    mixed = tables(X)[MIXED]
    words_of_another: dict[str, Any] = {**ENCRYPTED, "label_party": "party_1"}
    by_columns(VerticalForestClassifier, mixed, classes(numbers), **words_of_another)
    no_weight = np.where(np.arange(len(numbers)) % 7, weights, 0.0)
    by_columns(VerticalForestRegressor, mixed, numbers, sample_weight=no_weight, **words_of_another)
    grow_on(VerticalForestClassifier, X, two_classes(numbers), labels=Encrypted(), max_depth=3)
    grow_on(VerticalForestRegressor, X, numbers, labels=Encrypted(), max_depth=3)


def every_option_of_rows() -> None:
    X, numbers = draw_rows()
    weights = np.abs(X[:, 1]) + 0.5
    forests: list[dict[str, Any]] = [
        {"sample_weight": weights},
        {"sample_weight": 1e9 * weights},
        {"class_weight": "balanced"},
        {"criterion": "entropy", "min_samples_leaf": 5},
        {"max_features": None, "bootstrap": True},
        {"max_features": 1, "feature_sampling": "tree"},
        {"min_weight_fraction_leaf": 0.1},
        {"min_impurity_decrease": 0.01},
        {"bootstrap": True, "max_samples": 0.5, "voting": "hard"},
        {"n_parties": 1},
        {"n_jobs": 1},
        {"aggregation": Masked(k=2), "n_parties": 6},
        {"aggregation": Ring()},
        {"aggregation": Shamir(threshold=2)},
        {"participation": 0.5, "n_parties": 6},
        {"participation": 0.5, "participation_scope": "step", "n_parties": 6},
        {
            "participation": 0.5,
            "participation_scope": "run",
            "aggregation": Masked(),
            "n_parties": 6,
        },
    ]
    for options in forests:
        for y in (two_classes(numbers), classes(numbers)):
            by_rows(HorizontalExtraTreesClassifier, X, y, **options)
        if not {"class_weight", "voting"} & set(options):
            options.pop("criterion", None)
            by_rows(HorizontalExtraTreesRegressor, X, numbers, **options)
    nearly_constant = np.where(np.arange(len(X))[:, np.newaxis] < 8, X, 0.0)
    by_rows(HorizontalExtraTreesClassifier, nearly_constant, two_classes(numbers), max_features=1)
    HorizontalExtraTreesClassifier(4).fit(X, two_classes(numbers)).to_sklearn()
    HorizontalExtraTreesRegressor(4).fit(X, numbers).to_sklearn()


def horizontal_classes() -> None:
    usual(by_rows, HorizontalExtraTreesClassifier, two_classes)
    usual(by_rows, HorizontalExtraTreesClassifier, classes)


def under_noise(*noises: Any) -> None:
    X, numbers = draw_rows()
    for privacy, aggregation in product(noises, ("plain", Masked())):
        options = {"privacy": privacy, "aggregation": aggregation, "max_depth": 4}
        for y in (two_classes(numbers), classes(numbers)):
            by_rows(HorizontalExtraTreesClassifier, X, y, **options)


def local_noise() -> None:
    under_noise(LocalDP(keep=0.9), LocalDP(keep=0.9, bits=8, hashes=2), LocalDP(keep=0.7))
    X, numbers = draw_rows()
    some_rows = {"max_samples": 0.5, "max_depth": 4}
    by_rows(
        HorizontalExtraTreesClassifier, X, numbers > 0.0, privacy=LocalDP(keep=0.9), **some_rows
    )


def global_noise() -> None:
    under_noise(GlobalDP(epsilon=100.0), GlobalDP(epsilon_query=1.0))
    X, numbers = draw_rows()
    bounded = GlobalDP(epsilon=100.0, target_bounds=(-10.0, 10.0))
    by_rows(HorizontalExtraTreesRegressor, X, numbers, privacy=bounded, max_depth=4)


def many_rows() -> None:
    """Tables that take other paths than small ones: bins come from a sample of the rows."""
    X, numbers = draw_rows(70_000)
    rare = np.where(np.arange(len(X))[:, np.newaxis] % 20_000 == 7, np.round(9.0 * X), np.round(X))
    for table in (X.astype(np.float32), rare, rare.astype(np.float32)):
        by_columns(VerticalForestClassifier, table, two_classes(numbers), n_estimators=2)
    for y in (two_classes(numbers), classes(numbers)):
        by_columns(VerticalForestClassifier, X, y, n_estimators=2)
        by_rows(HorizontalExtraTreesClassifier, X, y, n_estimators=2)
    by_columns(VerticalForestRegressor, X, numbers, n_estimators=2)
    by_rows(HorizontalExtraTreesRegressor, X, numbers, n_estimators=2)
    by_columns(VerticalForestClassifier, X, classes(numbers, 26), n_estimators=10)


def served_rows() -> None:
    """Models in files, which answer single rows, in a process that has trained none."""
    with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
        for file in elsewhere.submit(store_whole_models).result():
            ServedModel("model", decode_forest(file)).warm_up()


def store_whole_models() -> list[bytes]:
    X, numbers = draw_rows()
    files = []
    for table in (X, tables(X)[MIXED]):
        for kinds, y in ((CLASSIFIERS, two_classes(numbers)), (REGRESSORS, numbers)):
            vertical = kinds[0](4, parties=2, random_state=0).fit(table, y)
            files.append(vertical.complete_model(dict.fromkeys(vertical.parties_, True)))
            files.append(kinds[1](4, random_state=0).fit(table, y).to_bytes())
    return files


def mapped_models() -> None:
    """Models whose arrays are read-only, because processes have the same file in their memory."""
    X, numbers = draw_rows()
    targets = (two_classes(numbers), classes(numbers), numbers)
    for kinds, y in zip((CLASSIFIERS, CLASSIFIERS, REGRESSORS), targets, strict=True):
        for kind, options in zip(kinds, ({"parties": 2}, {}), strict=True):
            forest = kind(20, random_state=0, **options).fit(X, y)
            with tempfile.TemporaryDirectory() as folder:
                joblib.dump(forest, Path(folder) / "forest")
                use(joblib.load(Path(folder) / "forest", mmap_mode="r"), X)


def linear_models() -> None:
    X, numbers = draw_rows()
    tables_by_party = {"first": X[:, :3], "second": X[:, 3:]}
    VerticalLogisticRegression().fit(tables_by_party, two_classes(numbers)).predict(tables_by_party)
    VerticalLinearRegression().fit(tables_by_party, numbers).predict(tables_by_party)


def rows_in_shards() -> None:
    """Parties whose rows lie on a cluster; its workers call what shards in this process call."""
    X, numbers = draw_rows()

    def make_rows(table: Any) -> ShardedRows:
        return ShardedRows(lambda: EngineHere(2), table, rows_gathered=60)

    where = "fedforest.estimators.vertical.training.opened_cluster"
    weights = 1.0 + (X[:, 5] > 0.0)
    with patch(where, lambda _: nullcontext(make_rows)):
        cases: tuple[tuple[Callable[..., Any], Target, str], ...] = (
            (VerticalForestClassifier, two_classes(numbers), "gini"),
            (VerticalForestClassifier, classes(numbers), "gini"),
            (VerticalForestClassifier, classes(numbers), "entropy"),
            (VerticalForestRegressor, numbers, "squared_error"),
            (VerticalForestRegressor, numbers - numbers.min() + 1.0, "poisson"),
        )
        for table, (kind, y, criterion) in product((X, tables(X)[MIXED]), cases):
            for given, options in ((None, {"oob_score": True}), (weights, WITH_LIMIT)):
                forest = kind(20, parties=2, random_state=0, criterion=criterion, **options)
                forest.fit(table, y, given)


WITH_LIMIT: dict[str, Any] = {"min_weight_fraction_leaf": 0.02, "bootstrap": False}


# `fit` and `predict` prepare the kinds that they know they will call (`estimators.watching`);
# `fedforest warm-up` prepares all of them, and wheels hold them.
KINDS: dict[str, Callable[[], None]] = {
    "vertical two classes": partial(usual, by_columns, VerticalForestClassifier, two_classes),
    "vertical classes": partial(usual, by_columns, VerticalForestClassifier, classes),
    "vertical numbers": partial(usual, by_columns, VerticalForestRegressor, np.asarray),
    "horizontal classes": horizontal_classes,
    "horizontal numbers": partial(usual, by_rows, HorizontalExtraTreesRegressor, np.asarray),
    "vertical prediction": partial(predictions, by_columns),
    "horizontal prediction": partial(predictions, by_rows),
    "prediction at parties": predictions_of_services,
    "tables": every_table,
    "targets": every_target,
    "vertical options": every_option_of_columns,
    "cluster": rows_in_shards,
    "horizontal options": every_option_of_rows,
    "LocalDP": local_noise,
    "GlobalDP": global_noise,
    "many rows": many_rows,
    "mapped models": mapped_models,
    "served rows": served_rows,
    "linear": linear_models,
    "encrypted labels": encrypted_labels,
    "encrypted options": every_option_of_encrypted_labels,
}
