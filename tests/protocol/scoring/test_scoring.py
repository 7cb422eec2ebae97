"""Scores leave, rounded and once; rows and labels do not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.protocol.asking import Message
from fedforest.protocol.payloads import to_bytes
from fedforest.protocol.scoring.coordinator import score_own_votes, score_there
from fedforest.protocol.scoring.messages import (
    REQUESTS,
    Scored,
    ScoreLeaves,
    ScoreOwnVotes,
    ScoreVotes,
)
from fedforest.protocol.scoring.party import ScoringParty, TrueClasses, TrueNumbers
from fedforest.protocol.scoring.payloads import ScoreSheet
from fedforest.runtime.driver import run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.codec import decode, encode
from fedforest.transport.in_process import InProcess
from fedforest.tree.forest.metrics import score_classes

CODES = np.array([0, 1, 1, 0, 1])
VOTES = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.6, 0.4], [1 / 3, 2 / 3]])

COUNTS = to_bytes(np.array([5, 1, 0, -1]), "<i8")


def party(own_votes: Callable[[], np.ndarray] | None = None, **options: Any) -> ScoringParty:
    return ScoringParty(TrueClasses(CODES, 2), own_votes, **options)


def connect(**parties: ScoringParty) -> InProcess:
    return InProcess({name: make_endpoint(each, REQUESTS) for name, each in parties.items()}, None)


def ask(votes: np.ndarray) -> ScoreVotes:
    return ScoreVotes(to_bytes(votes, "<f8"))


def test_the_label_party_judges_votes_and_rounds_what_it_says() -> None:
    judged = run(score_there("bank", ask(VOTES), is_regression=False), connect(bank=party()))
    exact = score_classes(CODES, VOTES)
    assert judged.confusion is not None
    assert exact.confusion is not None
    assert judged.confusion.tolist() == exact.confusion.tolist()
    assert judged.values == {name: float(f"{value:.6g}") for name, value in exact.values.items()}
    assert judged.values["log_loss"] != exact.values["log_loss"]


def test_parties_judge_the_model_they_have() -> None:
    parties = {"bank": party(lambda: VOTES), "shop": party(lambda: VOTES, with_confusion=False)}
    judged = run(score_own_votes(tuple(parties), is_regression=False), connect(**parties))
    assert judged["bank"].values == judged["shop"].values
    assert judged["bank"].confusion is not None
    assert judged["shop"].confusion is None


def test_other_votes_for_the_same_labels_are_refused() -> None:
    once = party()
    once.handle(ask(VOTES))
    for votes in (VOTES, VOTES[::-1]):
        with pytest.raises(RemoteProtocolError, match="asked for twice"):
            once.handle(ask(votes))


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (ask(VOTES[1:]), "64 bytes for 10 entries"),
        (ask(VOTES * np.nan), "not a number"),
        (ScoreOwnVotes(), "no request of this protocol"),
    ],
)
def test_what_cannot_be_scored_is_refused_and_spends_nothing(request_: Message, rule: str) -> None:
    fresh = party()
    with pytest.raises(RemoteProtocolError, match=rule):
        fresh.handle(request_)
    assert isinstance(fresh.handle(ask(VOTES)), Scored)


def test_a_party_with_a_model_of_its_own_takes_no_votes() -> None:
    with pytest.raises(RemoteProtocolError, match="no request of this protocol"):
        party(lambda: VOTES).handle(ask(VOTES))


def test_a_party_that_alone_reads_leaves_takes_leaves_once_and_no_votes() -> None:
    told: list[tuple[bytes, bool]] = []

    def vote(leaves: memoryview, hard: bool) -> np.ndarray:
        told.append((bytes(leaves), hard))
        return VOTES

    truth = TrueClasses(CODES, VOTES.shape[1])
    reader = ScoringParty(truth, votes_of=vote)
    with pytest.raises(RemoteProtocolError, match="no request of this protocol"):
        reader.handle(ask(VOTES))
    leaves = ScoreLeaves(memoryview(b"leaves"), hard_votes=True)
    judged = run(score_there("bank", leaves, is_regression=False), connect(bank=reader))
    wanted = run(score_there("bank", ask(VOTES), is_regression=False), connect(bank=party()))
    assert judged.values == wanted.values
    assert told == [(b"leaves", True)]
    with pytest.raises(RemoteProtocolError, match="asked for twice"):
        reader.handle(leaves)
    with pytest.raises(RemoteProtocolError, match="no request of this protocol"):
        party().handle(leaves)


def test_votes_of_any_size_are_judged_without_a_crash() -> None:
    numbers = ScoringParty(TrueNumbers(np.array([1.0, 2.0])))
    reply = numbers.handle(ask(np.full((2, 1), 1e300)))
    assert isinstance(reply, Scored)
    judged = decode(encode(reply), (Scored,)).scores.read(is_regression=True)
    assert judged.values.keys() == {"mae"}


@pytest.mark.parametrize(
    ("sheet", "rule"),
    [
        (ScoreSheet(5, memoryview(b""), memoryview(b"")), "scores: 0 bytes"),
        (ScoreSheet(0, to_bytes(np.ones(5), "<f8"), memoryview(b"")), "nothing was scored"),
        (ScoreSheet(5, to_bytes(np.full(5, np.inf), "<f8"), memoryview(b"")), "infinite"),
        (ScoreSheet(5, to_bytes(np.ones(5), "<f8"), COUNTS), "rows scored"),
        (ScoreSheet(5, to_bytes(np.ones(5), "<f8"), COUNTS[:16]), "counts of classes"),
    ],
)
def test_scores_that_cannot_be_are_their_senders_fault(sheet: ScoreSheet, rule: str) -> None:
    endpoints = {"bank": lambda _: encode(Scored(sheet))}
    with pytest.raises(RemoteProtocolError, match=rule):
        run(score_there("bank", ask(VOTES), is_regression=False), InProcess(endpoints, None))
