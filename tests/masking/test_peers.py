"""Who shares masks with whom: k peers each, and no k - 1 of them hold the graph together."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import MaskingError
from fedforest.masking.peers import choose_peers
from tests.masking.test_connectivity import is_connected, stays_connected_by_trying

NAMES = [f"party {i}" for i in range(40)]
SEEDS = {name: sha256(name.encode()).digest() for name in NAMES}
STEPS = st.integers(0, 2**64 - 1)


@settings(max_examples=80)
@given(st.integers(2, 12), st.one_of(st.none(), st.integers(1, 15)), STEPS)
def test_everybody_has_k_peers_or_all_others(n_parties: int, k: int | None, step: int) -> None:
    names = NAMES[:n_parties]
    peers = choose_peers(SEEDS, names, k, step)
    assert sorted(peers) == sorted(names)
    for party, chosen in peers.items():
        assert len(chosen) == len(set(chosen)) == min(n_parties - 1, k or n_parties)
        assert set(chosen) <= set(names) - {party}


@settings(max_examples=120)
@given(st.integers(2, 9), st.integers(1, 9), STEPS)
def test_whichever_k_minus_one_collude_the_others_stay_connected(
    n_parties: int, k: int, step: int
) -> None:
    peers = choose_peers(SEEDS, NAMES[:n_parties], k, step)
    assert stays_connected_by_trying(peers, min(k, n_parties - 1) - 1)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_many_parties_with_few_peers_are_connected(k: int) -> None:
    for step in range(10):
        assert is_connected(choose_peers(SEEDS, NAMES, k, step), ())


@settings(max_examples=40)
@given(st.permutations(NAMES[:7]), st.integers(1, 6), STEPS)
def test_all_parties_compute_the_same_choice_in_whatever_order_they_list_each_other(
    names: list[str], k: int, step: int
) -> None:
    told = {name: SEEDS[name] for name in names}
    assert choose_peers(told, names, k, step) == choose_peers(SEEDS, NAMES[:7], k, step)


def test_choices_change_with_the_step_the_seed_and_the_participants() -> None:
    def choices_of_party_0(seed: bytes, n_parties: int, first_step: int) -> list[tuple[str, ...]]:
        seeds = {**SEEDS, "party 0": seed}
        steps = range(first_step, first_step + 30)
        return [choose_peers(seeds, NAMES[:n_parties], 3, step)["party 0"] for step in steps]

    usual = choices_of_party_0(SEEDS["party 0"], 10, 0)
    assert len(set(usual)) > 20
    for other in (
        choices_of_party_0(SEEDS["party 0"], 10, 30),
        choices_of_party_0(SEEDS["party 0"], 11, 0),
        choices_of_party_0(sha256(b"other").digest(), 10, 0),
    ):
        assert sum(a == b for a, b in zip(usual, other, strict=True)) < 5


def test_parties_with_the_same_seed_still_choose_on_their_own() -> None:
    """One that copies another's seed does not get to copy its choice."""
    copied = dict.fromkeys(NAMES, SEEDS["party 0"])
    peers = choose_peers(copied, NAMES, 3, 0)
    positions = {
        tuple((NAMES.index(peer) - NAMES.index(party)) % 40 for peer in chosen)
        for party, chosen in peers.items()
    }
    assert len(positions) > 35
    assert len(set(peers.values())) > 35


def test_every_choice_is_as_likely() -> None:
    """Where n = k + 2 no choice is ever drawn again. At 5.5 deviations, one false alarm in 10^7."""
    n_steps = 3000
    drawn = [choose_peers(SEEDS, NAMES[:4], 2, step)["party 0"] for step in range(n_steps)]
    choices, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(choices) == 3
    assert (np.abs(counts - n_steps / 3) < 5.5 * np.sqrt(n_steps * 2 / 9)).all()


@pytest.mark.parametrize(
    ("participants", "k", "message"),
    [
        ([], 1, "two participants, not 0"),
        (["party 1"], None, "two participants, not 1"),
        (["party 1", "party 2", "party 1"], 1, "named twice"),
        (["party 1", "party 1"], None, "named twice"),
        (["party 1", "stranger"], None, "no selection seed is known of 'stranger'"),
        (["party 1", "party 2"], 0, "at least one peer; k is 0"),
        (["party 1", "party 2"], -1, "at least one peer; k is -1"),
    ],
)
def test_what_cannot_be_masked_is_refused(
    participants: list[str], k: int | None, message: str
) -> None:
    with pytest.raises(MaskingError, match=message):
        choose_peers(SEEDS, participants, k, 0)


def test_a_short_seed_or_an_impossible_step_is_refused() -> None:
    seeds = {**SEEDS, "party 1": b"guessable"}
    with pytest.raises(MaskingError, match="32 secret bytes, not 9") as caught:
        choose_peers(seeds, NAMES[:4], 1, 0)
    assert "guess" not in str(caught.value)
    with pytest.raises(MaskingError, match="cannot be bound"):
        choose_peers(SEEDS, NAMES[:4], 1, -1)
