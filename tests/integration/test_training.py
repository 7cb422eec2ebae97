"""Trainings and predictions between processes equal those in one process, byte for byte."""

import numpy as np
import pytest

from fedforest import VerticalForestClassifier
from fedforest.runtime.messages.orders import ListRuns, PredictVertical, WatchRun
from fedforest.runtime.messages.results import Predictions, RunList, VerticalResult
from fedforest.tree.files.forests import (
    decode_outline,
    decode_partial,
    encode_outline,
    encode_partial,
)
from tests.integration.processes import Processes
from tests.integration.samples import (
    NAMES,
    SEED,
    TRAININGS,
    bare_tables,
    draw_rows,
    vertical,
)


@pytest.mark.parametrize("training", TRAININGS)
def test_two_processes_train_what_one_process_trains(pair: Processes, training: str) -> None:
    order = TRAININGS[training](2)
    pair.check(order, pair.train(order))


@pytest.mark.parametrize("training", TRAININGS)
def test_five_processes_train_what_one_process_trains(five: Processes, training: str) -> None:
    order = TRAININGS[training](5)
    five.check(order, five.train(order))


@pytest.fixture(scope="module")
def estimator() -> VerticalForestClassifier:
    """The same forest, trained in this process without services."""
    estimator = VerticalForestClassifier(n_estimators=4, random_state=SEED, label_party=NAMES[0])
    return estimator.fit(bare_tables(2), draw_rows()[1])


def predict_by_processes(processes: Processes, n_parties: int) -> None:
    """All rows and some of them, as a forest of the same seed in this process sees them."""
    estimator = VerticalForestClassifier(n_estimators=4, random_state=SEED, label_party=NAMES[0])
    tables = bare_tables(n_parties)
    expected = estimator.fit(tables, draw_rows()[1]).predict_proba(tables)
    order = vertical(n_parties)
    model = processes.train(order).model
    everything = PredictVertical(data=order.data, model=model)
    some = PredictVertical(data=order.data, model=model, rows=[7, 3, 3])
    with processes.user() as user:
        assert np.array_equal(user.ask(everything, Predictions).read(), expected)
        assert np.array_equal(user.ask(some, Predictions).read(), expected[[7, 3, 3]])


def test_predictions_of_two_processes_are_those_of_the_estimator(pair: Processes) -> None:
    predict_by_processes(pair, 2)


def test_predictions_of_five_processes_are_those_of_the_estimator(five: Processes) -> None:
    predict_by_processes(five, 5)


def test_roles_keep_the_shares_of_the_estimators_forest(
    pair: Processes, estimator: VerticalForestClassifier
) -> None:
    model = pair.train(vertical(2)).model
    forest = estimator._model
    for role in pair.folder.roles:
        stored = (role.home / "models" / f"{model}.share").read_bytes()
        if role.name == "coordinator":
            about = decode_outline(stored).metadata
            assert stored == encode_outline(forest.outline, None, about)
        else:
            share, about = forest.shares[role.name], decode_partial(stored).metadata
            assert stored == encode_partial(share.partial, share.bins, about)
            assert (about["classes"] is not None) == (role.name == NAMES[0])


def test_a_run_that_is_over_is_listed_and_told_again(pair: Processes) -> None:
    result = pair.train(vertical(2, n_trees=1, max_depth=2))
    with pair.user() as user:
        runs = {run.run: run.state for run in user.ask(ListRuns(), RunList).runs}
        assert runs[result.model] == "finished"
        assert user.ask(WatchRun(run=result.model), VerticalResult) == result
