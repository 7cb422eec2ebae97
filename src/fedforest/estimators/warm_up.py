"""Small trainings of every kind, stored and read: afterwards all kernels are compiled."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.estimators.horizontal import (
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
)
from fedforest.estimators.vertical import VerticalForestClassifier, VerticalForestRegressor
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked

N_ROWS = 400


def compile_kernels(tell: Callable[[str], None]) -> None:
    """Train and store what people usually train, on a few rows; `tell` hears what comes next."""
    for what, train in _trainings():
        tell(what)
        train()


def _trainings() -> Iterator[tuple[str, Callable[[], object]]]:
    whole, targets = _draw_rows()
    with_gaps = np.where(np.abs(whole) > 2.0, np.nan, whole)
    two, three = targets > 0.0, np.digitize(targets, [-1.0, 1.0])
    yield from _by_columns(VerticalForestClassifier, "two classes", whole, two)
    yield from _by_columns(VerticalForestClassifier, "three classes", with_gaps, three)
    yield from _by_columns(VerticalForestRegressor, "numbers", whole, targets)
    for aggregation in ("plain", Masked()):
        by_rows = partial(HorizontalExtraTreesClassifier, aggregation=aggregation)
        yield from _by_rows(by_rows, f"two classes, {aggregation}", whole, two)
    yield from _by_rows(HorizontalExtraTreesClassifier, "three classes", with_gaps, three)
    masked_numbers = partial(HorizontalExtraTreesRegressor, aggregation=Masked())
    yield from _by_rows(masked_numbers, "numbers", whole, targets)
    for noise in (LocalDP(keep=0.9), GlobalDP(epsilon_total=100.0)):
        noisy = partial(HorizontalExtraTreesClassifier, privacy=noise)
        yield from _by_rows(noisy, f"two classes, {type(noise).__name__}", whole, two)


def _by_columns(
    kind: Callable[..., Any], what: str, X: NDArray[np.float64], y: NDArray[Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    columns = {
        party: {f"x{column}": X[:, column].copy() for column in range(first, first + 3)}
        for party, first in (("first", 0), ("second", 3))
    }
    # so many trees that every row is left out by some, or there would be a warning
    forest = kind(n_estimators=30, oob_score=True, random_state=0)

    def train() -> None:
        trained = forest.fit(columns, y)
        trained.predict(columns)
        type(trained).from_shares(trained.to_shares())

    yield f"{what}, by columns", train


def _by_rows(
    kind: Callable[..., Any], what: str, X: NDArray[np.float64], y: NDArray[Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    party = ["first", "second"] * (N_ROWS // 2)
    forest = kind(n_estimators=4, max_depth=6, random_state=0)

    def train() -> None:
        trained = forest.fit(X, y, party=party)
        trained.predict(X)
        type(trained).from_bytes(trained.to_bytes())

    yield f"{what}, by rows", train


def _draw_rows() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    return X, X[:, 0] + X[:, 3] + 0.1 * rng.normal(size=N_ROWS)
