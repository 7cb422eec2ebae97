"""The methods of Federated Forest's Tables 3 and 4 on one division of rows and columns.

Two parties hold random halves of the columns, drawn anew for every repetition; a fifth of the rows
is held out. Every method gets the same division and the same seed.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, train_test_split

import fedforest
from fedforest.experiments.data.reading import PaperTable

METHODS = ("RF1", "RF2", "F-LR", "NonFF", "FF")
TEST_FRACTION = 0.2
N_TREES = 100
# Regression forests try a third of the columns at a node (Breiman); scikit-learn's own default of
# all columns gives bagged trees, not a random forest.
MAX_FEATURES: Mapping[str, str | float] = {"classification": "sqrt", "regression": 1 / 3}
GRID = {"max_depth": (6, 12, None), "max_features": ("sqrt", 1 / 3)}

Tables = dict[str, NDArray[Any]]


class Division(NamedTuple):
    """One division of rows and columns."""

    task: str
    train: Tables
    test: Tables
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    seed: int

    def score(self, predicted: NDArray[Any]) -> float:
        """Accuracy, or the root of the mean squared error, on the rows held out."""
        if self.task == "regression":
            return float(np.sqrt(np.mean((predicted - self.y_test) ** 2)))
        return float(np.mean(predicted == self.y_test))


def divide(table: PaperTable, seed: int, repetition: int) -> Division:
    """Hold rows out and deal the columns to two parties, by the seed and the repetition alone.

    The two halves are random, as in the paper, but for target marketing, of a bank and a shop.
    """
    rng = np.random.default_rng((seed, repetition))
    rows_seed, forest_seed = (int(seed) for seed in rng.integers(2**31, size=2))
    halves = np.array_split(rng.permutation(table.shape[1]), 2)
    if set(table.groups) == {"bank", "shop"}:
        halves = [table.groups["shop"], table.groups["bank"]]
    X_train, X_test, y_train, y_test = train_test_split(
        table.codes, table.y, test_size=TEST_FRACTION, random_state=rows_seed
    )
    train, test = (
        {f"party_{n}": X[:, half] for n, half in enumerate(halves, 1)} for X in (X_train, X_test)
    )
    return Division(table.task, train, test, y_train, y_test, forest_seed)


def pool(tables: Tables) -> NDArray[Any]:
    """Return all columns in one table, which no party may have."""
    return np.hstack(list(tables.values()))


def score_method(method: str, division: Division, n_jobs: int) -> float:
    """Train one of `METHODS` and score it."""
    if method == "F-LR":
        return division.score(_predict_linearly(division))
    parameters = {
        "n_estimators": N_TREES,
        "max_features": MAX_FEATURES[division.task],
        "random_state": division.seed,
        "n_jobs": n_jobs,
    }
    if method == "FF":
        return score_forest(division, parameters)
    forest = RandomForestRegressor if division.task == "regression" else RandomForestClassifier
    view: Callable[[Tables], NDArray[Any]] = {
        "RF1": lambda tables: tables["party_1"],
        "RF2": lambda tables: tables["party_2"],
        "NonFF": pool,
    }[method]
    model = forest(**parameters).fit(view(division.train), division.y_train)
    return division.score(model.predict(view(division.test)))


def score_forest(
    division: Division, parameters: Mapping[str, Any], parties: tuple[str, ...] | None = None
) -> float:
    """Train our federated forest, over some of the parties, and score it."""
    name = "Regressor" if division.task == "regression" else "Classifier"
    model = getattr(fedforest, f"VerticalForest{name}")(**parameters)
    chosen = parties or tuple(division.train)
    model.fit({party: division.train[party] for party in chosen}, division.y_train)
    return division.score(model.predict({party: division.test[party] for party in chosen}))


def _predict_linearly(division: Division) -> NDArray[Any]:
    """Predict by federated linear models: one for each class where there are more than two."""
    if division.task == "regression":
        model = fedforest.VerticalLinearRegression().fit(division.train, division.y_train)
        return np.asarray(model.predict(division.test))
    classes = np.unique(division.y_train)
    if len(classes) == 2:
        model = fedforest.VerticalLogisticRegression().fit(division.train, division.y_train)
        return np.asarray(model.predict(division.test))
    chances = [
        fedforest.VerticalLogisticRegression()
        .fit(division.train, division.y_train == one)
        .predict_proba(division.test)[:, 1]
        for one in classes
    ]
    return np.asarray(classes[np.argmax(chances, axis=0)])


def search_grid(division: Division, n_jobs: int) -> dict[str, float]:
    """Score every point of `GRID` by three-fold cross-validation on the pooled training rows."""
    is_number = division.task == "regression"
    forest = RandomForestRegressor if is_number else RandomForestClassifier
    scoring = "neg_root_mean_squared_error" if is_number else "accuracy"
    search = GridSearchCV(
        forest(N_TREES, random_state=division.seed, n_jobs=n_jobs),
        {name: list(values) for name, values in GRID.items()},
        scoring=scoring,
        cv=3,
        refit=False,
    ).fit(pool(division.train), division.y_train)
    found = search.cv_results_
    return {
        tell_point(point): abs(float(score))
        for point, score in zip(found["params"], found["mean_test_score"], strict=True)
    }


def tell_point(point: Mapping[str, Any]) -> str:
    """Name a point of the grid."""
    depth, features = point["max_depth"], point["max_features"]
    told = features if isinstance(features, str) else f"{features:.2f}"
    return f"{'grown out' if depth is None else f'depth {depth}'}, {told}"
