"""With noise a party holds the run to what it agreed on: every label is counted so often, no more.

The coordinator's promises cost nothing; the party counts along and refuses.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fedforest.errors import BudgetExhausted, PartyLost, RemoteProtocolError
from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.messages import CountNoisily, Part
from fedforest.protocol.horizontal.messages import ProposeThresholds, Protection
from fedforest.protocol.horizontal.party.agreement import spending_of
from fedforest.protocol.horizontal.party.statistics import QUERIES_OF_A_BLOCK, LocalStatistics
from fedforest.tree.workers import ALONE, Workers
from tests.protocol.horizontal.asking_one import (
    NOTHING,
    AskedParty,
    ask_cuts,
    describe,
    pack_candidates,
    split_all,
    start_trees,
    stay_open,
)
from tests.protocol.horizontal.federations import Losing, train_openly
from tests.protocol.horizontal.recordings import tiny_shares

LOCAL = Protection("local", bits=2, hashes=1, keep=0.9, p=0.9, q=0.1)
GLOBAL = Protection("global", epsilon_query=1.0)
PROTECTIONS = pytest.mark.parametrize("protection", [LOCAL, GLOBAL], ids=lambda p: p.kind)
N_ROWS = 60
LIMITS = {"n_trees": 3, "max_depth": 2, "candidates_per_node": 2, "rows_apart": True}


def noisy_party(protection: Protection, **changes: Any) -> AskedParty:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    limits = {**LIMITS, "protection": protection, "both_sides": True}
    return AskedParty(X, np.arange(N_ROWS) % 2, **{**limits, **changes})


def refuse(reason: str, ask: Any) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        ask()
    assert caught.value.party == "coordinator"


@PROTECTIONS
def test_no_more_trees_are_begun_than_the_run_agreed_on(protection: Protection) -> None:
    party = noisy_party(protection)
    refuse("more trees", lambda: party.propose([[0]] * 4, start=start_trees(4, N_ROWS)))
    party.propose([[0]] * 2, start=start_trees(2, N_ROWS))
    refuse("more trees", lambda: party.propose([[0]] * 2, start=start_trees(2, N_ROWS)))
    party.propose([[0]], start=start_trees(1, N_ROWS))
    refuse("more trees", lambda: party.propose([[0]], start=start_trees(1, N_ROWS)))


@PROTECTIONS
def test_no_node_has_more_candidates_than_the_run_agreed_on(protection: Protection) -> None:
    party = noisy_party(protection)
    start = start_trees(1, N_ROWS)
    refuse("more candidate columns", lambda: party.propose([[0, 1, 2]], start=start))
    assert len(party.propose([[0, 1]], start=start)) == 2


@PROTECTIONS
def test_no_tree_is_deeper_than_the_run_agreed_on(protection: Protection) -> None:
    party = noisy_party(protection)
    party.propose([[0, 1]], start=start_trees(1, N_ROWS))
    party.propose([[0, 1]] * 2, moves=split_all([0], [0.0]))
    deeper = split_all([1, 1], [0.0, 0.0])
    refuse("deeper", lambda: party.propose([[0, 1]] * 4, moves=deeper))
    # nor by moving rows in one request and asking in the next
    refuse("deeper", lambda: party.propose([], moves=deeper))


@PROTECTIONS
def test_the_labels_of_a_node_are_not_counted_twice(protection: Protection) -> None:
    party = noisy_party(protection)
    party.propose([[0, 1]], start=start_trees(1, N_ROWS))
    party.count([0.0, 0.1], [False])
    refuse("twice in one step", lambda: party.count([0.0, 0.1], [False]))
    refuse("twice in one step", lambda: party.count([np.nan, np.nan], [True]))
    party.propose(
        [[2, 3]], moves=stay_open(1)
    )  # further columns of the same node: the labels are the same
    refuse("more often", lambda: party.count([0.0, np.nan], [False]))
    party.propose([[0, 1]] * 2, moves=split_all([2], [0.0]))  # its children may be asked about
    party.count([0.0, 0.1, 0.2, 0.3], [False, False])


@PROTECTIONS
def test_parts_of_one_request_count_together(protection: Protection) -> None:
    party = noisy_party(protection)
    party.propose([[0, 1]], start=start_trees(1, N_ROWS))
    parts = (Part((), ask_cuts([0.0, 0.1], [False])), Part((), ask_cuts([0.2, np.nan], [False])))
    refuse("twice in one step", lambda: party.tell(CountNoisily(2, parts)))
    party.step = 2
    party.count([0.0, 0.1], [False])  # nothing was sent, so nothing was spent


@PROTECTIONS
def test_noise_differs_between_questions_and_rows_are_exact(protection: Protection) -> None:
    party = noisy_party(protection, n_trees=40)
    party.propose([[0]] * 40, start=start_trees(40, N_ROWS))
    answers = party.count([np.nan] * 40, [True] * 40).reshape(40, -1)
    assert (answers[:, -1] == N_ROWS).all()  # branch sizes are not protected
    assert len(np.unique(answers[:, :-1], axis=0)) > 5  # the same rows, each time with new noise
    again = noisy_party(protection, n_trees=80)
    for _ in range(2):
        again.propose([[0]] * 40, start=start_trees(40, N_ROWS))
        later = again.count([np.nan] * 40, [True] * 40).reshape(40, -1)
    assert (later != answers).any()


def test_noise_is_the_same_whoever_draws_it() -> None:
    """More nodes than are answered from one keystream, by one thread and by several."""
    n_queries = 2 * QUERIES_OF_A_BLOCK + 5
    exact = np.tile([4, 1, 5], (n_queries, 1))
    code = LocalDP(keep=0.9).resolve(2)
    statistics = LocalStatistics(code, np.zeros(0, np.uint8))
    noisy = []
    with ThreadPoolExecutor(3) as threads:
        for workers in (ALONE, Workers(threads, 3)):
            noisy.append(exact.copy())
            statistics._answer(noisy[-1], bytes(32), workers)
    assert (noisy[0] == noisy[1]).all()
    first, second, _ = np.split(noisy[0], [QUERIES_OF_A_BLOCK, 2 * QUERIES_OF_A_BLOCK])
    assert (first != second).any()  # no block repeats another's noise


@PROTECTIONS
def test_the_same_request_gets_the_same_noise(protection: Protection) -> None:
    party = noisy_party(protection)
    party.propose([[0, 1]], start=start_trees(1, N_ROWS))
    request = CountNoisily(2, (Part((), ask_cuts([0.0, 0.1], [False])),))
    assert party.tell(request) == party.tell(request)


@PROTECTIONS
def test_a_run_without_limits_is_not_taken_for_a_free_one(protection: Protection) -> None:
    """The largest numbers that fit a proposal: the ledger refuses them, and at once."""
    largest = 2**31 - 2
    agreed = describe(
        4, 2, protection=protection, n_trees=largest, max_depth=largest, candidates_per_node=largest
    )
    assert spending_of(agreed).epsilon_composed > 1e20
    ledger = BudgetLedger(1.0)
    with pytest.raises(BudgetExhausted, match="ceiling of 1"):
        ledger.reserve("run", spending_of(agreed))
    assert ledger.spent == 0.0


@pytest.mark.parametrize("privacy", [LocalDP(keep=0.9), GlobalDP(epsilon_query=1.0)])
def test_a_loss_ends_a_run_with_noise_instead_of_spending_labels_twice(privacy: Any) -> None:
    with pytest.raises(PartyLost, match="start a new run") as caught:
        train_openly(
            tiny_shares("classes"),
            wrap=lambda inner: Losing(inner, "p2", 5),
            privacy=privacy,
            max_depth=3,
        )
    assert caught.value.party == "p2"


def test_a_party_that_only_follows_is_not_asked() -> None:
    party = noisy_party(GLOBAL)
    party.propose([], start=start_trees(1, N_ROWS))
    request = ProposeThresholds(2, None, split_all([3], [0.0]), NOTHING)
    party.tell(request)
    refuse(
        "before points", lambda: party.tell(CountNoisily(3, (Part((), ask_cuts([0.0], [True])),)))
    )
    candidates = pack_candidates([[0], [1]], 4)
    party.tell(ProposeThresholds(4, None, stay_open(2), candidates))
