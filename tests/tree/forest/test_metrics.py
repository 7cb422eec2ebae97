"""Scores are those of scikit-learn."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from fedforest.tree.forest.metrics import score_classes, score_numbers

SEEDS = st.integers(0, 2**32 - 1)


def draw_votes(rng: np.random.Generator, n_rows: int, n_classes: int) -> np.ndarray:
    """Shares of a few trees: many ties, zeros and ones among them."""
    votes = rng.multinomial(4, np.full(n_classes, 1 / n_classes), size=n_rows)
    return votes / 4.0


@given(SEEDS, st.integers(1, 60), st.integers(2, 4))
def test_scores_of_classes_are_scikit_learns(seed: int, n_rows: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n_rows)
    votes = draw_votes(rng, n_rows, n_classes)
    judged = score_classes(codes, votes)
    predicted, every = votes.argmax(axis=1), list(range(n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that do not occur
        expected = {
            "accuracy": metrics.accuracy_score(codes, predicted),
            "balanced_accuracy": metrics.balanced_accuracy_score(codes, predicted),
            "f1": metrics.f1_score(
                codes, predicted, average="binary" if n_classes == 2 else "macro"
            ),
            "log_loss": metrics.log_loss(codes, votes, labels=every),
        }
        if len(set(codes)) == n_classes:
            score = votes[:, 1] if n_classes == 2 else votes
            expected["auc"] = metrics.roc_auc_score(codes, score, multi_class="ovr")
    assert judged.values == pytest.approx(expected, abs=1e-12)
    assert judged.n_rows == n_rows
    assert judged.confusion is not None
    counts = metrics.confusion_matrix(codes, predicted, labels=every)
    assert judged.confusion.tolist() == counts.tolist()


@given(SEEDS, st.integers(2, 60))
def test_scores_of_numbers_are_scikit_learns(seed: int, n_rows: int) -> None:
    rng = np.random.default_rng(seed)
    targets, predictions = rng.normal(size=(2, n_rows)) * 100.0
    judged = score_numbers(targets, predictions)
    assert judged.values == pytest.approx(
        {
            "rmse": metrics.root_mean_squared_error(targets, predictions),
            "mae": metrics.mean_absolute_error(targets, predictions),
            "r2": metrics.r2_score(targets, predictions),
        }
    )
    assert judged.confusion is None


def test_what_is_undefined_is_left_out() -> None:
    votes = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert "auc" not in score_classes(np.zeros(2, np.int64), votes).values
    assert score_numbers(np.ones(3), np.zeros(3)).values.keys() == {"rmse", "mae"}


def test_classes_that_training_did_not_see_are_one_that_is_never_predicted() -> None:
    votes = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    judged = score_classes(np.array([0, 1, -1]), votes)
    assert judged.confusion is not None
    assert judged.confusion.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert judged.values["accuracy"] == pytest.approx(2 / 3)
    assert judged.values["balanced_accuracy"] == pytest.approx(2 / 3)
    padded = np.column_stack([votes, np.zeros(3)])
    expected = metrics.log_loss([0, 1, 2], padded, labels=[0, 1, 2])
    assert judged.values["log_loss"] == pytest.approx(expected)
