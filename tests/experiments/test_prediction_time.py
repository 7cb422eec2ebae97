"""Figures 6 to 8 of Federated Forest: real processes, all ways to the same leaves."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from fedforest import VerticalForestClassifier
from fedforest.experiments.experiment import FAILS, HOLDS
from fedforest.experiments.record import Record

pytest.importorskip("grpc", reason="the extra `federation` is not installed")

from fedforest.experiments.live.line import Line
from fedforest.experiments.live.prediction_parties import (
    AUTO,
    CLASSICAL,
    ONE_ROUND_NAME,
    PredictionParties,
    predict,
)
from fedforest.experiments.live.prediction_time import FIGURE_6

ROUND_TRIP = 0.05


def test_all_ways_over_processes_reach_the_leaves_of_one_process(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    tables = {"left": X[:, :2], "right": X[:, 2:]}
    forest = VerticalForestClassifier(3, max_depth=3, random_state=1).fit(tables, y)
    some = {party: table[::30] for party, table in tables.items()}
    wanted = forest.apply(some).T
    line = Line(round_trip_seconds=ROUND_TRIP)
    with PredictionParties(tmp_path, ("left", "right"), line) as parties:
        found = {
            manner: predict(parties, forest._model, some, manner)
            for manner in (CLASSICAL, ONE_ROUND_NAME, AUTO)
        }
    for predicted in found.values():
        np.testing.assert_array_equal(predicted.leaf_of, wanted)
        assert predicted.seconds >= ROUND_TRIP * predicted.n_exchanges
    assert found[ONE_ROUND_NAME].n_exchanges == 1
    path_lengths = found[CLASSICAL].n_exchanges
    assert 3 * len(some["left"]) < path_lengths <= 3 * 3 * len(some["left"])


@pytest.mark.parametrize(("one_round", "verdict"), [(0.002, HOLDS), (2.0, FAILS)])
def test_one_round_must_be_faster_and_rise_less(one_round: float, verdict: str) -> None:
    record = Record("ff-fig-6", {})
    for trees in (8, 32):
        about = {"exchanges": 100 * trees, "rows": 50, "bytes": 1}
        record.add(("spambase, loopback", CLASSICAL, f"{trees}"), {"wall": trees / 10, **about})
        once = about | {"exchanges": 1}
        for manner in (ONE_ROUND_NAME, AUTO):
            key = ("spambase, loopback", manner, f"{trees}")
            record.add(key, {"wall": one_round * trees, **once})
    checks = FIGURE_6.report(record).checks
    assert [check.verdict for check in checks] == [verdict, verdict, HOLDS]
