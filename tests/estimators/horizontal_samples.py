"""Small tables divided by rows, and horizontal forests on them that train in no time."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedforest.estimators.horizontal.forests import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)

N_ROWS = 150


def classifier(**parameters: Any) -> HorizontalExtraTreesClassifier:
    return HorizontalExtraTreesClassifier(**{"n_estimators": 6, "random_state": 0, **parameters})


def regressor(**parameters: Any) -> HorizontalExtraTreesRegressor:
    return HorizontalExtraTreesRegressor(**{"n_estimators": 6, "random_state": 0, **parameters})


def owners(n_rows: int = N_ROWS, n_parties: int = 3) -> NDArray[np.str_]:
    """Rows of all parties in a random order."""
    names = np.array(["bank", "clinic", "shop", "zoo"])[:n_parties]
    return np.random.default_rng(5).choice(names, n_rows)


def by_owner(data: Any, owner: NDArray[np.str_]) -> dict[str, Any]:
    """An array, series or frame as a mapping from party."""
    return {name: data[owner == name] for name in np.unique(owner).tolist()}


def one_of_each(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    half = len(frame) // 2
    return {"north": frame.iloc[:half], "south": frame.iloc[half:]}


def fitted_state(estimator: Any) -> dict[str, str]:
    """Everything that a fit sets, in a form that can be compared."""
    state = {name: repr(value) for name, value in vars(estimator).items() if name.endswith("_")}
    state.pop("fit_log_", None)  # it measures seconds
    return state | {"model": estimator.to_bytes().hex()}
