"""Small tables, and vertical forests on them that train in no time."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fedforest import VerticalForestClassifier, VerticalForestRegressor
from fedforest.tree.files.forests import encode_forest

N_ROWS = 150
# for forests so small that some rows are in every tree's bag, where that is not the point
few_trees = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")


def classifier(**parameters: Any) -> VerticalForestClassifier:
    return VerticalForestClassifier(**{"n_estimators": 6, "random_state": 0, **parameters})


def regressor(**parameters: Any) -> VerticalForestRegressor:
    return VerticalForestRegressor(**{"n_estimators": 6, "random_state": 0, **parameters})


def numbers(seed: int = 0, n_columns: int = 4) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal((N_ROWS, n_columns))


def labels(matrix: NDArray[np.float64]) -> NDArray[np.str_]:
    """Three classes that the columns tell apart, with some noise."""
    noise = np.random.default_rng(9).normal(0, 0.5, len(matrix))
    return np.array(["blue", "green", "red"])[
        np.digitize(matrix[:, 0] + matrix[:, -1] + noise, [-0.7, 0.7])
    ]


def amounts(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    noise = np.random.default_rng(9).normal(0, 0.3, len(matrix))
    return 100.0 + 3.0 * matrix[:, 0] - matrix[:, -1] ** 2 + noise


def mixed_frame(seed: int = 0) -> pd.DataFrame:
    """Numbers, text, categories, booleans, and missing values in each of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N_ROWS).astype(float),
            "income": rng.lognormal(10, 1, N_ROWS).astype(np.float32),
            "city": rng.choice(["Bern", "Lyon", "Porto"], N_ROWS),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], N_ROWS), ["S", "M", "L"]),
            "member": rng.random(N_ROWS) < 0.5,
            "visits": pd.array(rng.integers(0, 9, N_ROWS), dtype="Int64"),
        }
    )
    for column in ("age", "city", "size", "visits"):
        frame.loc[rng.random(N_ROWS) < 0.1, column] = None
    return frame


def frame_labels(frame: pd.DataFrame) -> NDArray[np.int64]:
    is_old = (frame["age"].fillna(40.0) > 50).to_numpy()
    return np.where(is_old, 1, (frame["city"] == "Lyon").fillna(value=False).to_numpy() * 2)


def by_party(matrix: NDArray[np.float64], cut: int = 2) -> dict[str, NDArray[np.float64]]:
    return {"bank": matrix[:, :cut], "shop": matrix[:, cut:]}


def consent_of(estimator: Any) -> dict[str, bool]:
    return dict.fromkeys(estimator.parties_, True)


def forest_bytes(estimator: Any) -> bytes:
    """The complete forest, for comparison byte by byte."""
    forest, bins = estimator._model.unite(consent_of(estimator))
    return encode_forest(forest, bins)


def fitted_state(estimator: Any) -> dict[str, str]:
    """Everything that a fit sets, in a form that can be compared."""
    state = {name: repr(value) for name, value in vars(estimator).items() if name.endswith("_")}
    return state | {"forest": forest_bytes(estimator).hex()}
