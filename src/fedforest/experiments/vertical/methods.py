"""The methods of Federated Forest's Tables 3 and 4 on one division of rows and columns.

Two parties hold random halves of the columns, drawn anew for every repetition; a fifth of the rows
is held out. Every method gets the same division and the same seed.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

import fedforest
from fedforest.experiments.data.reading import PaperTable

METHODS = ("RF1", "RF2", "F-LR", "NonFF", "FF")
TEST_FRACTION = 0.2
N_TREES = 100
MOST_SEARCHED_ROWS = 5_000  # of the training rows, by the grid search
MOST_LINEAR_ROWS = 50_000  # by F-LR: many classes are many models
MANY_ROWS = (
    100_000  # beyond, RF1 and RF2 are our forest over one party: scikit-learn's takes minutes
)
N_FOLDS = 3
STANDARD_ERROR = "standard error"


class Point(NamedTuple):
    """Hyper-parameters of all forests of a data set."""

    max_depth: int | None
    max_features: str | float

    def tell(self) -> str:
        features = "sqrt" if self.max_features == "sqrt" else "a third"
        return f"{'grown out' if self.max_depth is None else f'depth {self.max_depth}'}, {features}"


GRID = tuple(Point(depth, features) for depth in (6, 12, None) for features in ("sqrt", 1 / 3))
# Regression forests try a third of the columns at a node (Breiman); scikit-learn's own default of
# all columns gives bagged trees, not a random forest.
USUAL: Mapping[str, Point] = {
    "classification": Point(None, "sqrt"),
    "regression": Point(None, 1 / 3),
}

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


def score_method(method: str, division: Division, point: Point, n_jobs: int) -> float:
    """Train one of `METHODS`, forests with the hyper-parameters of a point, and score it."""
    if method == "F-LR":
        return division.score(predict_linearly(division))
    parameters = {
        "n_estimators": N_TREES,
        **point._asdict(),
        "random_state": division.seed,
        "n_jobs": n_jobs,
    }
    if method == "FF":
        return score_forest(division, parameters)
    alone = {"RF1": "party_1", "RF2": "party_2"}
    if method in alone and len(division.y_train) > MANY_ROWS:
        return score_forest(division, parameters, (alone[method],))
    forest = RandomForestRegressor if division.task == "regression" else RandomForestClassifier

    def view(tables: Tables) -> NDArray[Any]:
        return tables[alone[method]] if method in alone else pool(tables)

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


def predict_linearly(
    division: Division, *, by_least_squares: bool = False, **parameters: Any
) -> NDArray[Any]:
    """Predict by federated linear models: one for each class where there are more than two.

    Least squares on class labels are what a Taylor series makes of logistic regression. A model
    learns from the first `MOST_LINEAR_ROWS` rows.
    """
    train = {party: X[:MOST_LINEAR_ROWS] for party, X in division.train.items()}
    y_train = division.y_train[:MOST_LINEAR_ROWS]
    if division.task == "regression":
        linear = fedforest.VerticalLinearRegression(**parameters)
        return np.asarray(linear.fit(train, y_train).predict(division.test))

    def score(one: Any) -> NDArray[np.float64]:
        is_one = y_train == one
        if by_least_squares:
            numbers = np.where(is_one, 1.0, -1.0)
            squares = fedforest.VerticalLinearRegression(**parameters).fit(train, numbers)
            return np.asarray(squares.predict(division.test))
        logistic = fedforest.VerticalLogisticRegression(**parameters).fit(train, is_one)
        return np.asarray(logistic.decision_function(division.test))

    classes = np.unique(y_train)
    if len(classes) == 2:
        return np.asarray(classes[(score(classes[1]) > 0.0).astype(np.intp)])
    return np.asarray(classes[np.argmax([score(one) for one in classes], axis=0)])


def search_grid(division: Division, n_trees: int, n_jobs: int) -> dict[str, float]:
    """Score every point of `GRID` by cross-validation on pooled training rows.

    Beside the scores stands the standard error of the best.
    """
    is_number = division.task == "regression"
    X, y = pool(division.train), division.y_train
    rows = np.random.default_rng(division.seed).permutation(len(y))[:MOST_SEARCHED_ROWS]
    search = GridSearchCV(
        (RandomForestRegressor if is_number else RandomForestClassifier)(
            n_trees, random_state=division.seed, n_jobs=n_jobs
        ),
        [{name: [value] for name, value in point._asdict().items()} for point in GRID],
        scoring="neg_root_mean_squared_error" if is_number else "accuracy",
        cv=KFold(N_FOLDS, shuffle=True, random_state=division.seed),  # some classes have two rows
        refit=False,
    ).fit(X[rows], y[rows])
    found = search.cv_results_
    scores = {
        Point(**point).tell(): abs(float(score))
        for point, score in zip(found["params"], found["mean_test_score"], strict=True)
    }
    spread = float(found["std_test_score"][search.best_index_])
    return {**scores, STANDARD_ERROR: spread / (N_FOLDS - 1) ** 0.5}
