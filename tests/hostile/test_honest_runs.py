"""Honest runs never meet a refusal: every option of every estimator, against the same contracts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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

pytestmark = [
    pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores"),
    pytest.mark.filterwarnings("ignore:.* did not converge"),
]
N_ROWS = 48
HONEST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
FEW = settings(HONEST, max_examples=15)


def _table(seed: int, n_classes: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 5)).round(1)
    X[:, 3] = rng.integers(0, 2, N_ROWS)  # often constant in a node: further columns are tried
    X[:, 4] = 1.0
    classes = np.resize(np.arange(n_classes), N_ROWS)
    return X, rng.permutation(classes), rng.normal(size=N_ROWS)


COUNTS = st.one_of(st.integers(2, 6), st.floats(0.05, 0.3))
COMMON = {
    "n_estimators": st.integers(1, 5),
    "max_depth": st.one_of(st.none(), st.integers(1, 4)),
    "min_samples_leaf": COUNTS,
    "min_samples_split": COUNTS,
    "min_weight_fraction_leaf": st.sampled_from([0.0, 0.1]),
    "min_impurity_decrease": st.sampled_from([0.0, 0.05]),
    "max_features": st.sampled_from([None, "sqrt", 1, 3, 0.5]),
    "feature_sampling": st.sampled_from(["node", "tree"]),
    "random_state": st.integers(0, 1000),
}
DRAWS = st.sampled_from(
    [
        {"bootstrap": False},
        {"bootstrap": True},
        {"bootstrap": True, "max_samples": 0.3},
        {"bootstrap": True, "max_samples": 17},
        {"bootstrap": False, "max_samples": 0.3},
        {"bootstrap": False, "max_samples": 17},
    ]
)
PRIVATE_DRAWS = st.sampled_from(
    [{"bootstrap": False}, {"bootstrap": False, "max_samples": 0.6}, {"max_samples": 17}]
)
WEIGHTS = st.sampled_from([None, "balanced"])


@HONEST
@given(
    options=st.fixed_dictionaries(COMMON),
    draws=DRAWS,
    n_parties=st.integers(1, 4),
    n_classes=st.sampled_from([2, 3, 9]),
    votes=st.sampled_from(
        [{}, {"oob_score": True}, {"early_stopping": True, "n_iter_no_change": 1}]
    ),
    labels=st.sampled_from(["encoded", RandomizedResponse(epsilon=2.0), Encrypted()]),
    class_weight=WEIGHTS,
)
def test_no_vertical_classification_is_refused(
    options: dict[str, Any],
    draws: dict[str, Any],
    n_parties: int,
    n_classes: int,
    votes: dict[str, Any],
    labels: Any,
    class_weight: Any,
) -> None:
    X, classes, _ = _table(options["random_state"], n_classes)
    own = votes if draws["bootstrap"] else {}
    forest = VerticalForestClassifier(
        parties=n_parties, labels=labels, class_weight=class_weight, **options, **draws, **own
    )
    forest.fit(X, classes)
    if not isinstance(labels, RandomizedResponse):
        forest.set_params(warm_start=True, n_estimators=options["n_estimators"] + 2).fit(X, classes)
    assert len(forest.predict(X)) == N_ROWS


@HONEST
@given(
    options=st.fixed_dictionaries(COMMON),
    draws=DRAWS,
    n_parties=st.integers(1, 4),
    oob_score=st.booleans(),
    is_weighted=st.booleans(),
    max_bins=st.sampled_from([2, 16, 255]),
    labels=st.sampled_from(["encoded", Encrypted()]),
)
def test_no_vertical_regression_is_refused(
    options: dict[str, Any],
    draws: dict[str, Any],
    n_parties: int,
    oob_score: bool,
    is_weighted: bool,
    max_bins: int,
    labels: Any,
) -> None:
    X, _, numbers = _table(options["random_state"], 2)
    weights = np.arange(1.0, N_ROWS + 1) if is_weighted else None
    forest = VerticalForestRegressor(
        parties=n_parties,
        oob_score=oob_score and draws["bootstrap"],
        max_bins=max_bins,
        labels=labels,
        **options,
        **draws,
    )
    assert len(forest.fit(X, numbers, sample_weight=weights).predict(X)) == N_ROWS


@FEW
@given(
    options=st.fixed_dictionaries(COMMON),
    draws=DRAWS,
    n_parties=st.integers(2, 4),
    n_classes=st.sampled_from([0, 2, 3]),  # none: numbers
    votes=st.sampled_from(
        [{}, {"oob_score": True}, {"early_stopping": True, "n_iter_no_change": 1}]
    ),
    label_party=st.integers(0, 1),
    is_weighted=st.booleans(),
    prediction=st.sampled_from(["auto", "one_round", 1, 2]),
)
def test_no_training_with_encrypted_labels_is_refused(
    options: dict[str, Any],
    draws: dict[str, Any],
    n_parties: int,
    n_classes: int,
    votes: dict[str, Any],
    label_party: int,
    is_weighted: bool,
    prediction: Any,
) -> None:
    X, classes, numbers = _table(options["random_state"], n_classes or 2)
    own = votes if draws["bootstrap"] else {}
    kind: Any = VerticalForestClassifier if n_classes else VerticalForestRegressor
    forest = kind(
        parties=n_parties,
        labels=Encrypted(),
        label_party=f"party_{label_party}",
        prediction=prediction,
        max_bins=16,
        **options,
        **draws,
        **own,
    )
    weights = np.arange(1.0, N_ROWS + 1) if is_weighted else None
    labels = classes if n_classes else numbers
    forest.fit(X, labels, sample_weight=weights)
    forest.set_params(warm_start=True, n_estimators=options["n_estimators"] + 1)
    assert len(forest.fit(X, labels, sample_weight=weights).predict(X)) == N_ROWS


SUMS = st.sampled_from(["plain", Masked(), Masked(k=1), Ring(), Shamir(threshold=2)])
PARTICIPATION = st.sampled_from(
    [
        {},
        {"participation": 0.6, "participation_scope": "tree"},
        {"participation": 0.6, "participation_scope": "step"},
        {"participation": 0.6, "participation_scope": "run"},
    ]
)


@HONEST
@given(
    options=st.fixed_dictionaries(COMMON),
    draws=DRAWS,
    n_parties=st.integers(4, 6),
    n_classes=st.sampled_from([2, 3, 9]),
    aggregation=SUMS,
    participation=PARTICIPATION,
    class_weight=WEIGHTS,
)
def test_no_horizontal_classification_is_refused(
    options: dict[str, Any],
    draws: dict[str, Any],
    n_parties: int,
    n_classes: int,
    aggregation: Any,
    participation: dict[str, Any],
    class_weight: Any,
) -> None:
    X, classes, _ = _table(options["random_state"], n_classes)
    forest = HorizontalExtraTreesClassifier(
        aggregation=aggregation, class_weight=class_weight, **participation, **options, **draws
    )
    forest.fit(X, classes, party=np.arange(N_ROWS) % n_parties)
    assert len(forest.predict(X)) == N_ROWS


@HONEST
@given(
    options=st.fixed_dictionaries(COMMON),
    draws=PRIVATE_DRAWS,
    n_parties=st.integers(1, 4),
    privacy=st.sampled_from(
        [
            LocalDP(keep=0.9),
            LocalDP(epsilon=4.0, hashes=2, bits=8),
            LocalDP(epsilon=9.0, p=1.0, q=0.0),
            GlobalDP(epsilon_query=1.0),
            GlobalDP(epsilon=500.0),
        ]
    ),
)
def test_no_noisy_classification_is_refused(
    options: dict[str, Any], draws: dict[str, Any], n_parties: int, privacy: Any
) -> None:
    X, classes, _ = _table(options["random_state"], 2)
    depth = options["max_depth"] or 3
    forest = HorizontalExtraTreesClassifier(
        privacy=privacy, **{**options, **draws, "max_depth": depth}
    )
    forest.fit(X, classes, party=np.arange(N_ROWS) % n_parties)
    assert len(forest.predict(X)) == N_ROWS


@HONEST
@given(
    options=st.fixed_dictionaries(COMMON),
    draws=PRIVATE_DRAWS,
    privacy=st.sampled_from(
        [
            None,
            GlobalDP(epsilon_query=1.0, target_bounds=(-9.0, 9.0)),
            GlobalDP(epsilon=500.0, target_bounds=(-9.0, 9.0)),
        ]
    ),
    is_weighted=st.booleans(),
)
def test_no_horizontal_regression_is_refused(
    options: dict[str, Any], draws: dict[str, Any], privacy: Any, is_weighted: bool
) -> None:
    X, _, numbers = _table(options["random_state"], 2)
    weights = np.arange(1.0, N_ROWS + 1) if is_weighted and privacy is None else None
    depth = options["max_depth"] if privacy is None else options["max_depth"] or 3
    forest = HorizontalExtraTreesRegressor(
        privacy=privacy, **{**options, **draws, "max_depth": depth}
    )
    forest.fit(X, numbers, party=np.arange(N_ROWS) % 3, sample_weight=weights)
    assert len(forest.predict(X)) == N_ROWS


@HONEST
@given(seed=st.integers(0, 100), max_iter=st.integers(1, 30), n_parties=st.integers(1, 4))
def test_no_linear_model_is_refused(seed: int, max_iter: int, n_parties: int) -> None:
    X, classes, numbers = _table(seed, 2)
    logistic = VerticalLogisticRegression(parties=n_parties, max_iter=max_iter)
    linear = VerticalLinearRegression(parties=n_parties, max_iter=max_iter)
    with np.errstate(all="ignore"):
        for model, labels in ((logistic, classes), (linear, numbers)):
            assert len(model.fit(X, labels).predict(X)) == N_ROWS
