"""Who restores an old copy of a party's disk wants its noise or masks again on another question.

Two answers with the same noise differ by what was counted alone: the noise is gone. A restored copy
has the same secrets and the same number of questions; only what it is asked differs.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.protocol.aggregation.options import Masked, Ring
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.messages import Protection
from tests.protocol.aggregation.federations import federation
from tests.protocol.horizontal.asking_one import AskedParty, start_trees

LOCAL = Protection("local", bits=2, hashes=1, keep=0.9, p=0.9, q=0.1)
GLOBAL = Protection("global", epsilon_query=1.0)
PROTECTIONS = pytest.mark.parametrize("protection", [LOCAL, GLOBAL], ids=lambda p: p.kind)
N_ROWS, N_TREES = 60, 40


def restored_copy(protection: Protection) -> AskedParty:
    """A party with the same secrets every time; its second column is equal to the first."""
    column = np.random.default_rng(0).normal(size=N_ROWS)
    return AskedParty(
        np.column_stack([column, column]),
        np.arange(N_ROWS) % 2,
        protection=protection,
        rows_apart=True,
        both_sides=True,
        n_trees=N_TREES,
        max_depth=3,
        candidates_per_node=2,
    )


def ask(party: AskedParty, candidates: Sequence[int], threshold: float) -> NDArray[np.int64]:
    """The answers of all trees about one cut of each root."""
    party.propose([candidates] * N_TREES, start=start_trees(N_TREES, N_ROWS))
    return party.count([threshold] * N_TREES, [False] * N_TREES)


@PROTECTIONS
def test_a_restored_copy_does_not_repeat_its_noise_on_another_question(
    protection: Protection,
) -> None:
    asked = ask(restored_copy(protection), [0], 0.0)
    # no row lies between the cuts: what is counted is the same, so equal noise would show
    other = ask(restored_copy(protection), [0], 1e-6)
    assert (asked != other).mean() > 0.2


def test_two_answers_of_restored_copies_do_not_differ_by_exact_counts() -> None:
    X = np.random.default_rng(0).normal(size=N_ROWS)
    between = [
        np.count_nonzero((X > 0.0) & (X <= 0.5) & (np.arange(N_ROWS) % 2 == c)) for c in (0, 1)
    ]
    low, high = (ask(restored_copy(GLOBAL), [0], cut).reshape(N_TREES, -1) for cut in (0.0, 0.5))
    differences = (high - low)[:, :2]
    assert (differences == between).all(axis=1).mean() < 0.5


@PROTECTIONS
def test_the_same_words_after_another_conversation_have_other_noise(
    protection: Protection,
) -> None:
    asked = ask(restored_copy(protection), [0], 0.0)
    other = ask(restored_copy(protection), [1], 0.0)  # the same bytes ask about another column
    assert (asked != other).mean() > 0.2


@PROTECTIONS
def test_the_same_conversation_has_the_same_answers_so_that_runs_can_be_resumed(
    protection: Protection,
) -> None:
    once = [ask(restored_copy(protection), [0], 0.0) for _ in range(2)]
    assert once[0].tolist() == once[1].tolist()


@pytest.mark.parametrize("plug", [Masked(), Masked(k=1), Ring()], ids=str)
def test_restored_copies_do_not_repeat_their_masks_on_another_question(plug: Plug) -> None:
    """Shares of `Shamir` are drawn from the run's randomness, which is bound to the request."""
    counts = np.arange(40)
    vectors = {f"p{party}": {b"q0": counts, b"q1": counts} for party in range(4)}
    said = []
    for question in (b"q0", b"q0", b"q1"):
        parties = federation(plug, vectors).introduce()
        n_exchanges = len(parties.network.replies)
        parties.gather(1, [parties.segment(question)])
        hidden = parties.network.replies[n_exchanges:]
        said.append(hidden[:-1] or hidden)  # the last party of a ring tells the sum itself
    assert said[0] == said[1]  # the same secrets: what is repeated would be seen
    for once, other in zip(said[0], said[2], strict=True):
        assert all(once[party] != other[party] for party in once)
