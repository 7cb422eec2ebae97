"""`report(path)` of every estimator of forests."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fedforest import HorizontalExtraTreesClassifier, HorizontalExtraTreesRegressor
from fedforest.errors import ConfigurationError
from tests.estimators.vertical_samples import (
    amounts,
    classifier,
    labels,
    mixed_frame,
    numbers,
    regressor,
)
from tests.reports.test_run_report import check_that_it_is_inert

FORESTS: dict[str, tuple[Any, bool]] = {
    "vertical classes": (classifier(parties=2), True),
    "vertical numbers": (regressor(parties=2), False),
    "horizontal classes": (HorizontalExtraTreesClassifier(4, random_state=0), True),
    "horizontal numbers": (HorizontalExtraTreesRegressor(4, random_state=0), False),
}


@pytest.mark.parametrize("kind", FORESTS)
def test_a_report_says_how_good_it_is_what_it_goes_by_and_who_learned_what(
    kind: str, tmp_path: Path
) -> None:
    forest, has_classes = FORESTS[kind]
    frame, matrix = mixed_frame(), numbers()
    y = labels(matrix) if has_classes else amounts(matrix)
    forest.fit(frame, y)
    forest.report(tmp_path / "forest.html", frame, y)
    page = (tmp_path / "forest.html").read_text("utf-8")
    check_that_it_is_inert(page)
    score = f"{forest.score(frame, y):.4f}"
    for expected in (score, "income", "Tree 1", "Who learned what", "n_estimators", "150"):
        assert expected in page, expected
    forest.report(tmp_path / "without.html")
    assert score not in (tmp_path / "without.html").read_text("utf-8")


def test_the_out_of_bag_curve_and_unseen_classes_have_their_place(tmp_path: Path) -> None:
    forest = classifier(n_estimators=30, oob_score=True, parties=2).fit(
        numbers(), labels(numbers())
    )
    y = np.where(np.arange(150) % 5 == 0, "violet", labels(numbers()))
    forest.report(tmp_path / "forest.html", numbers(), y)
    page = (tmp_path / "forest.html").read_text("utf-8")
    assert "Out-of-bag score by number of trees" in page
    assert "(not in training)" in page


def test_a_report_needs_a_trained_model_and_targets_for_rows(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        classifier().report(tmp_path / "no.html")
    forest = classifier().fit(numbers(), labels(numbers()))
    with pytest.raises(ConfigurationError, match="pass X and y"):
        forest.report(tmp_path / "no.html", numbers())
    assert not (tmp_path / "no.html").exists()
