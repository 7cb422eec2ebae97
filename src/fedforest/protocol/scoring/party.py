"""The party of scoring: the owner of labels scores predictions, once.

Who learns what. A party that is sent votes learns what the forest predicts for its rows. It gives
away figures and counts of classes, never which rows are which.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import Message, answer, check
from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.protocol.payloads import from_bytes
from fedforest.protocol.scoring.messages import Scored, ScoreLeaves, ScoreOwnVotes, ScoreVotes
from fedforest.protocol.scoring.payloads import ScoreSheet
from fedforest.tree.forest.metrics import Judgement, score_classes, score_numbers

Votes = NDArray[np.float64]
VotesOfLeaves = Callable[[memoryview, bool], Votes]  # the flag: every tree votes for one class


class Truth(Protocol):
    """The labels of the rows that are predicted."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of votes: rows, and classes or one."""

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers."""

    def judge(self, votes: Votes) -> Judgement:
        """Compare votes with the labels."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueClasses:
    """Class numbers, -1 for a class that the model does not know."""

    codes: NDArray[np.int64]
    n_classes: int
    is_regression = False

    @property
    def shape(self) -> tuple[int, int]:
        """Of votes."""
        return len(self.codes), self.n_classes

    def judge(self, votes: Votes) -> Judgement:
        """Compare votes with the labels."""
        return score_classes(self.codes, votes)


@dataclass(frozen=True, slots=True, eq=False)
class TrueNumbers:
    """Targets of regression."""

    targets: NDArray[np.float64]
    is_regression = True

    @property
    def shape(self) -> tuple[int, int]:
        """Of votes."""
        return len(self.targets), 1

    def judge(self, votes: Votes) -> Judgement:
        """Compare votes with the labels."""
        return score_numbers(self.targets, votes[:, 0])


class ScoringParty:
    """Answers the coordinator of scoring, with votes of its own or with those it is sent."""

    def __init__(
        self,
        truth: Truth,
        own_votes: Callable[[], Votes] | None = None,
        *,
        votes_of: VotesOfLeaves | None = None,
        with_confusion: bool = True,
        accountant: Accountant = OWNER,
    ) -> None:
        """Score `own_votes`, or `votes_of` leaves, or else the votes that it is sent."""
        self._truth = truth
        self._own_votes, self._votes_of = own_votes, votes_of
        self._with_confusion = with_confusion
        self._accountant = accountant
        self._has_scored = False
        self._handlers: dict[type[Message], Callable[[Any], Message]]
        if own_votes is not None:
            self._handlers = {ScoreOwnVotes: self._score_own_votes}
        elif votes_of is not None:
            self._handlers = {ScoreLeaves: self._score_leaves}
        else:
            self._handlers = {ScoreVotes: self._score_votes}

    def handle(self, request: Message) -> Message:
        """Answer one request; a request out of place is refused and changes nothing."""
        return answer(self._handlers, request)

    def _score_votes(self, request: ScoreVotes) -> Scored:
        n_rows, n_outputs = self._truth.shape
        votes = from_bytes(request.votes, "<f8", n_rows * n_outputs, "votes")
        check(bool(np.isfinite(votes).all()), "a vote is not a number")
        return self._judge(request, lambda: votes.reshape(n_rows, n_outputs))

    def _score_leaves(self, request: ScoreLeaves) -> Scored:
        assert self._votes_of is not None
        votes = self._votes_of(request.leaves, request.hard_votes)
        return self._judge(request, lambda: votes)

    def _score_own_votes(self, request: ScoreOwnVotes) -> Scored:
        assert self._own_votes is not None
        return self._judge(request, self._own_votes)

    def _judge(self, request: Message, votes: Callable[[], Votes]) -> Scored:
        # other votes for the same labels would tell more of the labels
        check(not self._has_scored, "scores are asked for twice")
        truth, accountant = self._truth, self._accountant
        accountant.approve(request, truth.shape[0])
        with np.errstate(over="ignore"):  # votes may be any numbers; a figure is then undefined
            judged = truth.judge(votes())
        # where few rows are predicted as one class, the counts would tell their labels
        least = accountant.least_rows if self._with_confusion else None
        sheet = ScoreSheet.of(judged, is_regression=truth.is_regression, least_predicted=least)
        self._has_scored = True
        return Scored(sheet)
