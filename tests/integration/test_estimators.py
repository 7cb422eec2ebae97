"""Estimators with `transport=`: what they learn and say is what they do without, to the last bit.

Parties are processes. Beside every vertical forest stands one of the same seed whose parties are in
this process. Where parties draw something themselves (noise, masks, cuts of horizontal trees), the
same services in this process draw the same.
"""

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fedforest import (
    Encrypted,
    HorizontalExtraTreesClassifier,
    HorizontalExtraTreesRegressor,
    RandomizedResponse,
    VerticalForestClassifier,
    VerticalForestRegressor,
)
from fedforest.errors import ConfigurationError, NoiseExceedsSignalWarning
from fedforest.estimators.horizontal import federation as federated_horizontal
from fedforest.estimators.horizontal import options as horizontal_options
from fedforest.estimators.vertical import federation as federated_vertical
from fedforest.estimators.vertical import options as vertical_options
from fedforest.estimators.vertical.whole_forest import WholeForest
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.membership.homes import HOME_VARIABLE
from fedforest.runtime.messages.orders import ListRuns, WatchRun
from fedforest.runtime.messages.results import HorizontalResult, RunList, RunState
from fedforest.runtime.party.spending import Budgets
from tests.estimators.vertical_samples import few_trees
from tests.integration.processes import AnyResult, Processes, result_type
from tests.integration.samples import (
    COLUMNS,
    NAMES,
    ROWS,
    SEED,
    AnyTraining,
    bare_tables,
    divide,
    draw_rows,
)

BY_COLUMNS, BY_ROWS = (dict.fromkeys(NAMES[:2], name) for name in (COLUMNS, ROWS))
TARGET = "x0"  # of regressions: a column of the label party
SMALL: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "random_state": SEED}


def classifiers(pair: Processes, **parameters: Any) -> tuple[Any, Any]:
    """The same forest over processes and in this one; neither is fitted."""
    settings = {**SMALL, **parameters}
    here = VerticalForestClassifier(**settings, label_party=NAMES[0])
    return clone(here).set_params(transport=pair.folder.profile), here


def fit_both(there: Any, here: Any) -> None:
    there.fit(BY_COLUMNS, "label")
    here.fit(bare_tables(2), draw_rows()[1])


def regression_tables() -> tuple[dict[str, Any], Any]:
    """What processes take for columns if one of them is the label, and that one."""
    tables = {party: table[COLUMNS] for party, table in divide(2).items()}
    target = tables[NAMES[0]][TARGET].to_numpy()
    return tables | {NAMES[0]: tables[NAMES[0]].drop_columns([TARGET])}, target


def runs_of(pair: Processes) -> list[RunState]:
    with pair.user() as user:
        return user.ask(ListRuns(), RunList).runs


def check_last_run(pair: Processes, order: AnyTraining) -> AnyResult:
    """The last run is what this order leads to without processes, noise and masks included."""
    with pair.user() as user:
        result = user.ask(WatchRun(run=runs_of(pair)[-1].run), result_type(order))
    pair.check(order, result)
    return result


def check_same(there: Any, here: Any, names: tuple[str, ...]) -> None:
    for name in names:
        assert np.array_equal(getattr(there, name), getattr(here, name), equal_nan=True), name


@few_trees
def test_a_vertical_classifier_over_processes_is_the_one_in_this_process(pair: Processes) -> None:
    there, here = classifiers(pair, oob_score=True, class_weight={0: 1.0, 1: 2.0})
    fit_both(there, here)
    assert there.classes_.tolist() == here.classes_.tolist()
    assert (there.n_trees_, there.n_steps_) == (here.n_trees_, here.n_steps_)
    names = ("feature_importances_", "oob_curve_", "oob_score_", "oob_decision_function_")
    check_same(there, here, names)
    for ask in ("predict", "predict_proba", "apply"):
        assert np.array_equal(
            getattr(there, ask)(BY_COLUMNS), getattr(here, ask)(bare_tables(2))
        ), ask
    assert there.privacy_spent_ == here.privacy_spent_
    hard = there.set_params(voting="hard").predict_proba(BY_COLUMNS)
    assert np.array_equal(hard, here.set_params(voting="hard").predict_proba(bare_tables(2)))


@few_trees
def test_rows_drawn_without_replacement_over_processes_are_those_drawn_in_this_process(
    pair: Processes,
) -> None:
    there, here = classifiers(pair, bootstrap=False, max_samples=0.5, oob_score=True)
    fit_both(there, here)
    check_same(there, here, ("oob_curve_", "oob_score_", "oob_decision_function_"))
    assert np.array_equal(there.predict_proba(BY_COLUMNS), here.predict_proba(bare_tables(2)))


@few_trees
def test_encrypted_forests_over_processes_are_those_in_this_process(pair: Processes) -> None:
    settings: dict[str, Any] = {"n_estimators": 2, "max_bins": 16, "labels": Encrypted()}
    there, here = classifiers(pair, **settings, oob_score=True, class_weight="balanced")
    fit_both(there, here)
    check_same(there, here, ("oob_curve_", "oob_score_"))
    for ask in ("predict", "predict_proba", "apply"):
        assert np.array_equal(
            getattr(there, ask)(BY_COLUMNS), getattr(here, ask)(bare_tables(2))
        ), ask
    for secret in ("feature_importances_", "oob_decision_function_"):
        assert not hasattr(there, secret)
    there.set_params(warm_start=True, n_estimators=3).fit(BY_COLUMNS, "label")
    here.set_params(warm_start=True, n_estimators=3).fit(bare_tables(2), draw_rows()[1])
    assert np.array_equal(there.predict_proba(BY_COLUMNS), here.predict_proba(bare_tables(2)))


def test_an_encrypted_regressor_over_processes_is_the_one_in_this_process(pair: Processes) -> None:
    settings: dict[str, Any] = {**SMALL, "n_estimators": 1, "max_depth": 2, "max_bins": 16}
    here = VerticalForestRegressor(**settings, labels=Encrypted(), label_party=NAMES[0])
    there = clone(here).set_params(transport=pair.folder.profile)
    tables, target = regression_tables()
    there.fit(BY_COLUMNS, TARGET)
    here.fit(tables, target)
    assert np.array_equal(there.predict(BY_COLUMNS), here.predict(tables))


@few_trees
def test_a_vertical_regressor_over_processes_is_the_one_in_this_process(pair: Processes) -> None:
    here = VerticalForestRegressor(**SMALL, oob_score=True, label_party=NAMES[0])
    there = clone(here).set_params(transport=pair.folder.profile, prediction="one_round")
    tables, target = regression_tables()
    there.fit(BY_COLUMNS, TARGET)
    here.fit(tables, target)
    check_same(there, here, ("feature_importances_", "oob_score_", "oob_prediction_"))
    assert np.array_equal(there.predict(BY_COLUMNS), here.predict(tables))
    assert np.array_equal(there.apply(BY_COLUMNS), here.apply(tables))


def test_leaves_over_processes_weigh_their_share(pair: Processes) -> None:
    limits = {"min_weight_fraction_leaf": 0.1, "class_weight": {0: 1.0, 1: 2.0}}
    there, here = classifiers(pair, **limits, bootstrap=False)
    fit_both(there, here)
    leaves = there.apply(BY_COLUMNS)
    assert np.array_equal(leaves, here.apply(bare_tables(2)))
    check_same(there, here, ("feature_importances_",))
    weights = 1.0 + draw_rows()[1]
    of_leaves = [np.bincount(of_tree, weights) for of_tree in leaves.T]
    shares = np.concatenate([sums[sums > 0] / weights.sum() for sums in of_leaves])
    assert 0.1 <= shares.min() < 0.5


def test_early_stopping_over_processes_keeps_the_same_trees(pair: Processes) -> None:
    early: dict[str, Any] = {"early_stopping": True, "n_iter_no_change": 2, "tol": 0.02}
    there, here = classifiers(pair, n_estimators=30, **early)
    fit_both(there, here)
    assert 2 < there.n_trees_ == here.n_trees_ < 30
    check_same(there, here, ("oob_curve_",))
    assert not hasattr(there, "oob_decision_function_")  # votes stay with the label party
    assert np.array_equal(there.predict_proba(BY_COLUMNS), here.predict_proba(bare_tables(2)))


@few_trees
@pytest.mark.parametrize("oob_score", [False, True])
def test_a_warm_start_over_processes_gives_the_forest_of_one_fit(
    pair: Processes, oob_score: bool
) -> None:
    there, _ = classifiers(pair, n_estimators=2, warm_start=True, oob_score=oob_score)
    there.fit(BY_COLUMNS, "label")
    first = there.model_id_
    there = pickle.loads(pickle.dumps(there))  # votes are with the label party, not in it
    there.set_params(n_estimators=4).fit(BY_COLUMNS, "label")
    assert there.model_id_ != first
    _, here = classifiers(pair, oob_score=oob_score)
    here.fit(bare_tables(2), draw_rows()[1])
    assert there.n_trees_ == 4
    check_same(there, here, ("feature_importances_",))
    if oob_score:
        check_same(there, here, ("oob_curve_", "oob_score_", "oob_decision_function_"))
    assert np.array_equal(there.predict_proba(BY_COLUMNS), here.predict_proba(bare_tables(2)))


def test_a_warm_start_over_processes_that_cannot_be_asks_nobody_and_spends_nothing(
    pair: Processes,
) -> None:
    labels = RandomizedResponse(1.0)
    forest, _ = classifiers(pair, n_estimators=2, max_depth=2, warm_start=True, labels=labels)
    forest.fit(BY_COLUMNS, "label")
    n_runs, before = len(runs_of(pair)), vars(forest).copy()
    wrong: list[tuple[dict[str, Any], dict[str, str], str]] = [
        ({"n_estimators": 1}, BY_COLUMNS, "2 trees of earlier fits"),
        ({"n_estimators": 3, "oob_score": True}, BY_COLUMNS, "cannot begin in a warm start"),
        ({"n_estimators": 3, "early_stopping": True}, BY_COLUMNS, "cannot begin in a warm start"),
        ({"n_estimators": 3, "label_party": "shop"}, BY_COLUMNS, "label_party"),
        ({"n_estimators": 3}, dict(reversed(BY_COLUMNS.items())), "same parties"),
    ]
    for parameters, data, reason in wrong:
        with pytest.raises(ConfigurationError, match=reason):
            forest.set_params(**parameters).fit(data, "label")
        forest.set_params(**{name: before[name] for name in parameters})
    with pytest.warns(UserWarning, match="does not fit new trees") as caught:
        forest.fit(BY_COLUMNS, "label")
    assert caught[0].filename == __file__
    assert vars(forest) == before
    assert len(runs_of(pair)) == n_runs


@few_trees
def test_votes_of_rows_left_out_cannot_begin_again_once_a_fit_did_without(pair: Processes) -> None:
    forest, _ = classifiers(pair, n_estimators=1, max_depth=2, warm_start=True, oob_score=True)
    forest.fit(BY_COLUMNS, "label")
    forest.set_params(n_estimators=2, oob_score=False).fit(BY_COLUMNS, "label")
    with pytest.raises(ConfigurationError, match="cannot begin in a warm start"):
        forest.set_params(n_estimators=3, oob_score=True).fit(BY_COLUMNS, "label")


def test_labels_are_protected_over_processes_and_every_fit_is_counted(pair: Processes) -> None:
    there, _ = classifiers(pair, labels=RandomizedResponse(1.5), n_estimators=3, warm_start=True)
    there.fit(BY_COLUMNS, "label")
    options = vertical_options.read_options(there, "classification")
    given = (BY_COLUMNS, "label", None)
    check_last_run(pair, federated_vertical.order_training(there, options, given, None))
    assert there.privacy_spent_["label_epsilon"] == 1.5
    assert there.predict_proba(BY_COLUMNS).shape == (len(draw_rows()[1]), 2)
    there.set_params(n_estimators=4).fit(BY_COLUMNS, "label")
    assert there.privacy_spent_["label_epsilon"] == 3.0
    bank = pair.folder.parties["bank"].home
    booked = {spend.run for spend in Budgets(bank).read(COLUMNS, np.inf).spends}
    assert there.model_id_ in booked


HORIZONTAL: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "classes, plain": (HorizontalExtraTreesClassifier, "label", {"aggregation": "plain"}),
    "classes, masked": (HorizontalExtraTreesClassifier, "label", {"aggregation": Masked()}),
    "classes, local privacy": (
        HorizontalExtraTreesClassifier,
        "label",
        {"aggregation": "plain", "privacy": LocalDP(keep=0.9)},
    ),
    "numbers, plain": (HorizontalExtraTreesRegressor, TARGET, {"aggregation": "plain"}),
    "limited": (HorizontalExtraTreesClassifier, "label", {"min_weight_fraction_leaf": 0.1}),
    "drawn rows": (
        HorizontalExtraTreesClassifier,
        "label",
        {"aggregation": Masked(), "bootstrap": False, "max_samples": 0.5},
    ),
    "numbers, masked": (HorizontalExtraTreesRegressor, TARGET, {"aggregation": Masked()}),
}


@pytest.mark.parametrize("name", HORIZONTAL)
def test_a_horizontal_forest_over_processes_is_that_of_the_same_services_in_this_process(
    pair: Processes, name: str
) -> None:
    """Parties draw cuts, masks and noise from secrets of their own, whatever the seed."""
    kind, label, protection = HORIZONTAL[name]
    forest = kind(**SMALL, **protection, transport=pair.folder.profile).fit(BY_ROWS, label)
    options = horizontal_options.read_options(forest, forest._task)
    given = (BY_ROWS, label, None, None)
    order = federated_horizontal.order_training(forest, options, given)
    result = check_last_run(pair, order)
    assert isinstance(result, HorizontalResult)
    table = divide(1)[NAMES[0]][ROWS]
    expected = WholeForest.from_bytes(result.file).votes(table)
    rows, truth = table.drop_columns([label]), table[label].to_numpy()
    if kind is HorizontalExtraTreesClassifier:
        assert np.array_equal(forest.predict_proba(rows), expected)
        assert np.array_equal(forest.predict(rows), forest.classes_[expected.argmax(axis=1)])
        assert np.mean(forest.predict(rows) == truth) > (0.5 if "privacy" in name else 0.7)
    else:
        assert np.array_equal(forest.predict(rows), expected[:, 0])
        assert np.corrcoef(forest.predict(rows), truth)[0, 1] > 0.5
    assert forest.apply(rows).shape == (len(truth), forest.n_trees_)
    is_private = forest.privacy_spent_["mechanism"] == "local"
    assert is_private == ("privacy" in name)


def test_noise_beyond_its_signal_is_warned_of_over_processes_too(pair: Processes) -> None:
    """The coordinator knows the rows of all parties; its note comes before the first tree."""
    label = HORIZONTAL[next(name for name in HORIZONTAL if "privacy" in name)][1]
    forest = HorizontalExtraTreesClassifier(
        **SMALL, privacy=LocalDP(epsilon=0.2), transport=pair.folder.profile
    )
    with pytest.warns(NoiseExceedsSignalWarning, match="One of these helps: ") as warned:
        forest.fit(BY_ROWS, label)
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("kind", "data", "rows"),
    [
        (VerticalForestClassifier, BY_COLUMNS, BY_COLUMNS),
        (HorizontalExtraTreesClassifier, BY_ROWS, draw_rows()[0]),
    ],
)
def test_a_forest_over_processes_is_cloned_and_pickled_before_and_after_it_is_fitted(
    pair: Processes, kind: Any, data: dict[str, str], rows: Any
) -> None:
    forest = kind(**SMALL, transport=pair.folder.profile)
    forest = pickle.loads(pickle.dumps(clone(forest))).fit(data, "label")
    expected = forest.predict_proba(rows)
    unpickled = pickle.loads(pickle.dumps(forest))
    assert np.array_equal(unpickled.predict_proba(rows), expected)
    assert np.array_equal(unpickled.apply(rows), forest.apply(rows))
    unfitted = clone(unpickled)
    assert unfitted.get_params() == forest.get_params()
    assert not hasattr(unfitted, "_model")
    assert np.array_equal(unfitted.fit(data, "label").predict_proba(rows), expected)


def test_a_federation_is_found_by_the_name_and_by_the_address_of_a_profile(
    pair: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    shutil.copytree(pair.folder.profile, tmp_path / "profiles" / "work")
    (tmp_path / "profiles" / "other").mkdir()
    (tmp_path / "profiles" / "other" / "profile.toml").write_text('coordinator = "127.0.0.1:1"\n')
    said = []
    for transport in ("work", pair.folder.address, pair.folder.profile):
        forest = VerticalForestClassifier(**SMALL, transport=transport).fit(BY_COLUMNS, "label")
        said.append(forest.predict_proba(BY_COLUMNS).tolist())
    assert said[0] == said[1] == said[2]
    for unknown in ("elsewhere", "127.0.0.1:2"):
        with pytest.raises(ConfigurationError, match=r"no profile.*there are: 'other', 'work'"):
            VerticalForestClassifier(transport=unknown).fit(BY_COLUMNS, "label")
