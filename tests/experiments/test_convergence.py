"""Figure 5 of Federated Forest: curves over the number of trees."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from fedforest import VerticalForestClassifier
from fedforest.experiments.data.reading import PaperTable
from fedforest.experiments.experiment import FAILS, HOLDS
from fedforest.experiments.record import Record
from fedforest.experiments.vertical import convergence
from fedforest.experiments.vertical.convergence import FF, FIGURE_5, OOB, PAPERS, RF, settles_at
from fedforest.experiments.vertical.methods import divide

IRIS = PaperTable.of_numbers("iris", "classification", *load_iris(return_X_y=True))


@pytest.mark.parametrize("score", ["_score_federated", "_score_pooled", "_score_left_out"])
def test_every_number_of_trees_has_a_score(score: str) -> None:
    measured = getattr(convergence, score)((1, 3, 9), {"max_depth": 3}, divide(IRIS, 1, 0))
    assert list(measured) == ["1", "3", "9"]
    assert all(0.5 < value <= 1.0 for value in measured.values())


def test_a_smaller_forest_is_the_beginning_of_a_larger_one() -> None:
    division = divide(IRIS, 1, 0)
    few, many = (
        VerticalForestClassifier(n, random_state=3).fit(division.train, division.y_train)
        for n in (2, 5)
    )
    np.testing.assert_array_equal(few.apply(division.test), many.apply(division.test)[:, :2])


def test_a_curve_settles_where_it_stays_near_its_end() -> None:
    assert settles_at({1: 0.5, 5: 0.9, 10: 0.8, 20: 0.899, 100: 0.9}) == 20
    assert settles_at({1: 0.9, 5: 0.9}) == 1


def test_a_curve_that_rises_to_its_end_has_not_converged() -> None:
    record = Record("ff-fig-5", {})
    flat, rising = {"1": 0.9, "50": 0.9, "100": 0.9}, {"1": 0.5, "50": 0.7, "100": 0.9}
    for method in (FF, RF, OOB):
        record.add(("waveform", method, ""), flat)
    record.add(("waveform", PAPERS, ""), rising)
    verdicts = {check.claim: check.verdict for check in FIGURE_5.report(record).checks}
    assert verdicts[f"waveform: {FF} converges as trees are added"] == HOLDS
    assert verdicts[f"waveform: {PAPERS} converges as trees are added"] == FAILS
