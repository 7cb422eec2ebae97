"""Out-of-bag votes at the label party: how well the trees do on rows they left out.

The label party compares with the labels it gave out: with noisy ones where labels are noisy, so
that scores release nothing about the true ones, and corrects the score for the noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError
from fedforest.kernels.prediction.walk import Leaves
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.tree.forest.forest import Shape
from fedforest.tree.growth.left_out_rows import OutOfBagTally


@dataclass(frozen=True, slots=True, eq=False)
class AnswerKey:
    """The labels that votes are compared with."""

    answers: NDArray[np.float64] | NDArray[np.integer]  # a target or a class for each row
    n_classes: int  # 0 for regression
    response: RandomizedResponse | None = None  # the noise in the answers

    def score(self, votes: OutOfBagTally) -> float:
        """Accuracy or R^2 over the rows with votes; NaN where that means nothing."""
        rows = np.flatnonzero(votes.counts)
        if not len(rows):
            return float("nan")
        if self.n_classes:
            return self._accuracy(votes.votes[rows].argmax(axis=1) == self.answers[rows])
        truth = self.answers[rows]
        with np.errstate(over="ignore", invalid="ignore"):  # squares may leave the range of floats
            errors = votes.votes[rows, 0] / votes.counts[rows] - truth
            spread = float(((truth - truth.mean()) ** 2).sum())
            unexplained = float((errors**2).sum())
        is_known = 0.0 < spread < np.inf and unexplained < np.inf
        return 1.0 - unexplained / spread if is_known else float("nan")

    def _accuracy(self, is_right: NDArray[np.bool_]) -> float:
        share = np.array([is_right.mean()])
        if self.response is not None:
            share = self.response.debias(share, self.n_classes)
        return float(share[0])


class OutOfBagRecord:
    """Adds up votes batch by batch; the trees of the last batch can still be taken back."""

    def __init__(self, key: AnswerKey, n_rows: int) -> None:
        self.key = key
        self.n_rows = n_rows
        self._now = OutOfBagTally(n_rows, key.n_classes)
        self._before_last = self._now
        self._last: tuple[Shape, Leaves, NDArray[np.int32]] | None = None

    def add(
        self, shape: Shape, leaves: Leaves, leaf_of: NDArray[np.int32], *, hard: bool
    ) -> NDArray[np.float64]:
        """Let a batch of trees vote; the score after each of them."""
        self._now.hard = hard
        self._before_last = self._now.copy()
        self._last = (shape, leaves, leaf_of)
        scores = np.empty(shape.n_trees)
        for tree in range(shape.n_trees):
            self._now.add(shape, leaves, leaf_of, tree)
            scores[tree] = self.key.score(self._now)
        return scores

    def close(self, n_dropped: int) -> None:
        """The last trees are dropped: take back their votes, all of the last batch."""
        self._now = self._without_last(n_dropped)
        self._last, self._before_last = None, self._now

    def _without_last(self, n_dropped: int) -> OutOfBagTally:
        if not n_dropped or self._last is None:
            return self._now
        shape, leaves, leaf_of = self._last
        votes = self._before_last.copy()
        for tree in range(shape.n_trees - n_dropped):
            votes.add(shape, leaves, leaf_of, tree)
        return votes

    def copy(self, *, without_last: int = 0) -> "OutOfBagRecord":
        """Copy the votes, or those without the last trees, to be extended apart."""
        other = OutOfBagRecord(self.key, self.n_rows)
        other._now = other._before_last = self._without_last(without_last).copy()
        return other

    def forget(self) -> None:
        """Trees grow that let nobody vote: votes of the others would not be those of the forest."""
        self._now = self._before_last = OutOfBagTally(self.n_rows, self.key.n_classes)
        self._last = None

    @property
    def votes(self) -> OutOfBagTally:
        """The votes so far."""
        return self._now

    def means(self) -> NDArray[np.float64]:
        """(rows, classes) mean votes, NaN where no tree left the row out."""
        return self._now.means()


def check_votes_kept(is_kept: bool) -> None:
    """Refuse that out-of-bag votes begin in a forest whose first trees let nobody vote."""
    if not is_kept:
        raise ConfigurationError.stating(
            "oob_score and early_stopping cannot begin in a warm start: nobody kept which rows "
            "the earlier trees left out (in one process, a pickled forest forgets it, too). Set "
            "one of them from the first fit on. Set warm_start=False to start anew."
        )


def check_earlier_votes(record: OutOfBagRecord | None, n_rows: int) -> None:
    """Out-of-bag votes of earlier trees are there, about as many rows."""
    check_votes_kept(record is not None)
    assert record is not None
    if record.n_rows != n_rows:
        raise DataError.of("votes.other_rows", n_rows=n_rows, n_known=record.n_rows)
