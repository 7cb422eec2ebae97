"""Linear models, alignment and scoring under storms of spoiled messages, on either side.

Vertical and horizontal forests have files of their own.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fedforest.protocol.alignment import messages as alignment
from fedforest.protocol.asking import Conversation, Handler
from fedforest.protocol.linear import messages as linear
from fedforest.protocol.linear.coordinator import predict, train
from fedforest.protocol.linear.labels import Labels
from fedforest.protocol.linear.party import LinearParty
from fedforest.protocol.payloads import to_bytes
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.scoring.coordinator import score_own_votes, score_there
from fedforest.protocol.scoring.messages import ScoreVotes
from fedforest.protocol.scoring.party import ScoringParty, TrueClasses, TrueNumbers
from fedforest.runtime.messages.orders import AlignmentMethod
from fedforest.runtime.trainings.alignment import CONVERSATIONS
from fedforest.tree.table.frames import read_table
from tests.protocol.alignment.federations import RUN, Aligning
from tests.protocol.linear.federations import (
    Federation,
    correlated,
    divide,
    federation,
    numbers,
    two_classes,
)
from tests.protocol.storms import Case, storm_coordinator, storm_party
from tests.protocol.vertical.mutations import little_memory

FEW, MANY = 1_000, 20_000
N_ROWS = 12
X = correlated(N_ROWS, 3)
VOTES = np.random.default_rng(0).random((N_ROWS, 2))
IDS = {
    "bank": [b"ann", b"bob", b"cy", b"dee"],
    "shop": [b"dee", b"eve", b"ann"],
    "clinic": [b"bob", b"ann", b"dee", b"fay", b"fay"],
}


def linear_federation(labels: Labels) -> Federation:
    return federation(divide(X, [2]), labels, max_iter=4, is_weighted=True)


def linear_case(labels: Labels) -> Case:
    def check(trained: Any) -> None:
        assert np.isfinite(trained.intercept)
        assert trained.n_iter <= 4

    return Case(
        lambda: linear_federation(labels).parties,
        lambda: train(linear_federation(labels).order),
        linear.REQUESTS,
        check,
    )


def linear_prediction() -> Case:
    """Parties that hold a model."""
    trained = linear_federation(two_classes(X))
    trained.train()

    def parties() -> Mapping[str, Handler]:
        return {
            party: LinearParty(read_table(table), share=trained.parties[party].share())
            for party, table in divide(X, [2]).items()
        }

    def check(scores: Any) -> None:
        assert np.isfinite(scores).all()

    return Case(parties, lambda: predict(("p0", "p1"), 0.5), linear.REQUESTS, check)


def alignment_case(method: AlignmentMethod) -> Case:
    def check(common: Any) -> None:
        assert 1 <= common.n_common <= 3

    return Case(
        lambda: Aligning(IDS, method=method).parties,
        lambda: CONVERSATIONS[method](RUN, tuple(IDS)),
        alignment.REQUESTS,
        check,
    )


def scoring_case(*, is_regression: bool, is_own: bool) -> Case:
    codes = (VOTES[:, 0] < 0.5).astype(np.int64)
    truth = TrueNumbers(VOTES[:, 0]) if is_regression else TrueClasses(codes, 2)
    votes = VOTES[:, :1] if is_regression else VOTES

    def parties() -> Mapping[str, Handler]:
        names = ("bank", "shop") if is_own else ("bank",)
        return {name: ScoringParty(truth, (lambda: votes) if is_own else None) for name in names}

    def converse() -> Conversation[Any]:
        if is_own:
            return score_own_votes(("bank", "shop"), is_regression=is_regression)
        request = ScoreVotes(to_bytes(votes, "<f8"))
        return score_there("bank", request, is_regression=is_regression)

    def check(judged: Any) -> None:
        for each in judged.values() if is_own else [judged]:
            assert each.n_rows >= 0
            assert all(np.isfinite(value) for value in each.values.values())

    return Case(parties, converse, scoring.REQUESTS, check)


CASES = {
    "linear, classes": linear_case(two_classes(X)),
    "linear, numbers": linear_case(numbers(X)),
    "linear, prediction": linear_prediction(),
    "alignment by keyed hashes": alignment_case("keyed-hash"),
    "alignment by intersection": alignment_case("psi"),
    "scoring of classes": scoring_case(is_regression=False, is_own=False),
    "scoring of numbers": scoring_case(is_regression=True, is_own=False),
    "scoring of own votes": scoring_case(is_regression=False, is_own=True),
}

storms = pytest.mark.parametrize(
    "n_messages", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)]
)


@storms
@pytest.mark.parametrize("name", CASES)
def test_a_party_refuses_spoiled_requests_by_name_and_stays_as_it_was(
    name: str, n_messages: int
) -> None:
    case = CASES[name]
    parties = list(case.parties())
    with little_memory():
        n_refused = sum(
            storm_party(case, party, -(-n_messages // len(parties)), np.random.default_rng(number))
            for number, party in enumerate(parties)
        )
    assert n_refused > n_messages // 4  # a storm that is mostly acceptable tests nothing


@storms
@pytest.mark.parametrize("name", CASES)
def test_a_coordinator_that_hears_a_spoiled_reply_names_the_liar_or_comes_to_something_usable(
    name: str, n_messages: int
) -> None:
    with little_memory():
        n_refused = storm_coordinator(CASES[name], n_messages, np.random.default_rng(7))
    assert n_refused > n_messages // 4
