"""Trainings and predictions between processes equal those in one process, byte for byte."""

from pathlib import Path

import numpy as np
import pytest

from fedforest import VerticalForestClassifier
from fedforest.runtime.orders import ListRuns, PredictVertical
from fedforest.runtime.results import Predictions, RunList, VerticalResult
from fedforest.tree.forest_file import decode_outline, decode_partial
from tests.integration.processes import Processes
from tests.integration.samples import (
    COLUMNS,
    NAMES,
    SEED,
    TRAININGS,
    divide,
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


def test_predictions_between_processes_are_those_of_the_estimator(pair: Processes) -> None:
    tables = {party: table[COLUMNS] for party, table in divide(2).items()}
    _, y = draw_rows()
    bare = {
        party: table.drop_columns([name for name in table.column_names if name == "label"])
        for party, table in tables.items()
    }
    estimator = VerticalForestClassifier(n_estimators=4, random_state=SEED, label_party=NAMES[0])
    expected = estimator.fit(bare, y).predict_proba(bare)
    result = pair.train(vertical(2))
    with pair.user() as user:
        everything = PredictVertical(data=vertical(2).data, model=result.model)
        votes = user.ask(everything, Predictions).read()
        some = PredictVertical(data=vertical(2).data, model=result.model, rows=[7, 3, 3])
        votes_of_some = user.ask(some, Predictions).read()
    assert np.array_equal(votes, expected)
    assert np.array_equal(votes_of_some, expected[[7, 3, 3]])


def test_roles_keep_the_shares_that_the_estimator_would_export(
    pair: Processes, tmp_path: Path
) -> None:
    tables = {party: table[COLUMNS] for party, table in divide(2).items()}
    _, y = draw_rows()
    tables[NAMES[0]] = tables[NAMES[0]].drop_columns(["label"])
    estimator = VerticalForestClassifier(n_estimators=4, random_state=SEED, label_party=NAMES[0])
    estimator.fit(tables, y)
    result = pair.train(vertical(2))
    for role in pair.folder.roles:
        stored = (role.home / "models" / f"{result.model}.share").read_bytes()
        expected = estimator._model  # noqa: SLF001 - the shares as they are in memory
        if role.name == "coordinator":
            _assert_same(decode_outline(stored).outline, expected.outline)
        else:
            partial = decode_partial(stored)
            _assert_same(partial.partial, expected.shares[role.name].partial)


def test_a_run_that_is_over_is_listed_and_told_again(pair: Processes) -> None:
    result = pair.train(vertical(2, n_trees=1, max_depth=2))
    from fedforest.runtime.orders import WatchRun

    with pair.user() as user:
        runs = {run.run: run.state for run in user.ask(ListRuns(), RunList).runs}
        assert runs[result.model] == "finished"
        assert user.ask(WatchRun(run=result.model), VerticalResult) == result
