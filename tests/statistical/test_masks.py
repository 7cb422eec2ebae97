"""What masked vectors tell, measured: to the coordinator alone, and with parties colluding.

Randomness is seeded. With other seeds right masks would fail one of these tests about once in 10^6
runs: there are fewer than 1,000 comparisons, each a chi-square test that gives a false alarm once
in 10^9 cases.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.masking.masks import Masker, Summand
from fedforest.masking.peers import choose_peers, find_partners
from tests.masking.federations import (
    USE,
    Federation,
    OneVector,
    Peers,
    directed_mask,
    introduce,
    mask_one,
    neighbours,
    strip_known_masks,
    unmask_sum,
)
from tests.statistical.uniformity import chance_of_words

FALSE_ALARM = 1e-9
LENGTH = 2**14  # 64 words for each cell of a byte's table
STEP = 3

# two groups of mutual peers, joined by one party
TWO_GROUPS = {
    "party 0": ("party 1", "party 4"),
    "party 1": ("party 0", "party 4"),
    "party 2": ("party 3", "party 4"),
    "party 3": ("party 2", "party 4"),
    "party 4": ("party 0", "party 2"),
}


def label_counts(federation: Federation) -> dict[str, NDArray[np.int64]]:
    """Plain vectors as parties really send them: small counts, and many zeros."""
    rng = np.random.default_rng(1)
    return {name: rng.poisson(0.7, LENGTH).astype(np.int64) for name in federation.names}


def is_uniform(words: NDArray[np.uint64]) -> bool:
    return chance_of_words(words) > FALSE_ALARM


def add_up(vectors: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    total: NDArray[np.uint64] = np.sum(list(vectors), axis=0, dtype=np.uint64)
    return total


def proper_subsets(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """All sets of these, but not none and not all."""
    ordered = sorted(names)
    for size in range(1, len(ordered)):
        yield from combinations(ordered, size)


@pytest.mark.parametrize(("n_parties", "k"), [(n, k) for n in range(2, 6) for k in range(1, n)])
def test_whatever_the_coordinator_adds_up_is_uniform_until_it_has_everything(
    n_parties: int, k: int
) -> None:
    federation = introduce(n_parties)
    plain = label_counts(federation)
    peers = choose_peers(federation.seeds, federation.names, k, STEP)
    masked = federation.mask_all(plain, peers)
    for some in proper_subsets(masked):
        assert is_uniform(add_up(masked[name] for name in some))
    assert np.array_equal(unmask_sum(list(masked.values())), sum(plain.values()))


@pytest.mark.parametrize("n_parties", [2, 3, 8])
def test_mutual_peers_stay_masked(n_parties: int) -> None:
    """At k = n - 1, where all are mutual, and where only neighbours in a ring are."""
    federation = introduce(n_parties)
    names = federation.names
    ring = {name: tuple({names[i - 1], names[(i + 1) % n_parties]}) for i, name in enumerate(names)}
    everyone = choose_peers(federation.seeds, names, None, STEP)
    plain = label_counts(federation)
    for peers in (ring, everyone):
        assert all(name in peers[peer] for name in names for peer in peers[name])
        for vector in federation.mask_all(plain, peers).values():
            assert is_uniform(vector)


def test_masks_without_a_direction_would_send_plain_vectors() -> None:
    """What directions are for: at k = n - 1 everybody subtracts and adds each mask, or would."""
    federation = introduce(4)
    plain = label_counts(federation)
    for party, secrets in federation.secrets.items():
        sent = plain[party].view(np.uint64).copy()
        for other, secret in secrets.items():
            one, two = sorted((party, other))
            undirected = directed_mask(secret, one, two, USE, LENGTH)
            sent -= undirected  # for the peer this party chose
            sent += undirected  # for the peer that chose this party
        assert np.array_equal(sent.view(np.int64), plain[party])


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_k_minus_one_colluders_and_the_coordinator_learn_the_honest_sum_only(k: int) -> None:
    """Any k - 1 parties, whether the victim chose them or they it, with all they know."""
    federation = introduce(6)
    plain = label_counts(federation)
    peers = choose_peers(federation.seeds, federation.names, k, STEP)
    masked = federation.mask_all(plain, peers)
    for colluders in combinations(federation.names, k - 1):
        stripped = strip_known_masks(federation, masked, peers, colluders)
        honest_sum = sum(plain[name] for name in stripped)
        assert np.array_equal(add_up(stripped.values()).view(np.int64), honest_sum)
        for some in proper_subsets(stripped):
            assert is_uniform(add_up(stripped[name] for name in some))


def test_all_other_parties_and_the_coordinator_learn_everything() -> None:
    """At k = n - 1 these are the k peers that the paper says suffice."""
    federation = introduce(4)
    plain = label_counts(federation)
    peers = choose_peers(federation.seeds, federation.names, 3, STEP)
    masked = federation.mask_all(plain, peers)
    for victim in federation.names:
        stripped = strip_known_masks(federation, masked, peers, set(peers) - {victim})
        assert np.array_equal(stripped[victim].view(np.int64), plain[victim])


def closed_neighbourhoods(federation: Federation, k: int) -> Iterator[tuple[int, str, Peers]]:
    """Steps at which nobody chose some party but the k peers it chose itself."""
    for step in range(200):
        peers = choose_peers(federation.seeds, federation.names, k, step)
        for party in peers:
            if len(neighbours(party, peers)) == k:
                yield step, party, peers


@pytest.mark.parametrize("k", [1, 2, 3])
def test_k_peers_and_the_coordinator_succeed_where_nobody_else_chose_the_victim(k: int) -> None:
    """The paper's k + 1: in the worst case those who chose the victim are those it chose."""
    federation = introduce(6)
    plain = label_counts(federation)
    step, victim, peers = next(closed_neighbourhoods(federation, k))
    use = USE._replace(step=step)
    masked = federation.mask_all(plain, peers, use)
    stripped = strip_known_masks(federation, masked, peers, peers[victim], use)
    assert np.array_equal(stripped[victim].view(np.int64), plain[victim])
    for spared in peers[victim]:
        fewer = set(peers[victim]) - {spared}
        stripped = strip_known_masks(federation, masked, peers, fewer, use)
        assert is_uniform(stripped[victim])


def test_chosen_peers_alone_do_not_succeed_while_an_honest_party_chose_the_victim() -> None:
    federation = introduce(5)
    plain = label_counts(federation)
    masked = federation.mask_all(plain, TWO_GROUPS)
    both_chosen_by_0 = strip_known_masks(federation, masked, TWO_GROUPS, ["party 1", "party 4"])
    assert np.array_equal(both_chosen_by_0["party 0"].view(np.int64), plain["party 0"])
    both_chosen_by_4 = strip_known_masks(federation, masked, TWO_GROUPS, ["party 0", "party 2"])
    assert is_uniform(both_chosen_by_4["party 4"])


def test_in_a_graph_that_is_merely_connected_one_colluder_would_expose_the_sum_of_a_group() -> None:
    """Why peers are drawn again until any k - 1 may leave: here k is 2, and one is enough."""
    federation = introduce(5)
    plain = label_counts(federation)
    masked = federation.mask_all(plain, TWO_GROUPS)
    stripped = strip_known_masks(federation, masked, TWO_GROUPS, ["party 4"])
    group = add_up(stripped[name] for name in ("party 0", "party 1"))
    assert np.array_equal(group.view(np.int64), plain["party 0"] + plain["party 1"])


def test_a_mask_used_twice_would_expose_the_difference_of_two_vectors() -> None:
    federation = introduce(2)
    secrets = federation.secrets["party 0"]
    peers = choose_peers(federation.seeds, federation.names, None, STEP)
    plain = label_counts(federation)
    first, second = (mask_one(vector, "party 0", peers, secrets) for vector in plain.values())
    assert np.array_equal((first - second).view(np.int64), plain["party 0"] - plain["party 1"])


@pytest.mark.parametrize(
    "other",
    [
        USE._replace(run=b"run of tomorrow"),
        USE._replace(step=USE.step + 1),
        USE._replace(digest=sha256(b"other request").digest()),
    ],
)
def test_masks_of_another_run_step_or_request_have_nothing_in_common(other: OneVector) -> None:
    federation = introduce(2)
    secret = federation.secrets["party 0"]["party 1"]
    one = directed_mask(secret, "party 0", "party 1", USE, LENGTH)
    assert is_uniform(one)
    assert is_uniform(one - directed_mask(secret, "party 0", "party 1", other, LENGTH))
    assert is_uniform(one + directed_mask(secret, "party 1", "party 0", other, LENGTH))


def test_vectors_of_one_reply_have_no_mask_in_common() -> None:
    """Sums of one pair, under one key: adding or subtracting them takes no mask off."""
    federation = introduce(3)
    everyone = choose_peers(federation.seeds, federation.names, None, STEP)
    pair = choose_peers(federation.seeds, federation.names[:2], None, STEP)
    plain = label_counts(federation)["party 0"]
    digests = [sha256(name).digest() for name in (b"first", b"second", b"third")]
    summands = [
        Summand(len(plain), find_partners("party 0", peers), digest)
        for peers, digest in zip((pair, everyone, pair), digests, strict=True)
    ]
    masker = Masker("party 0", federation.secrets["party 0"], USE.run)
    sent = np.split(masker.mask(np.tile(plain, 3), summands, STEP), 3)
    for one, two in combinations(sent, 2):
        assert is_uniform(one - two)
        assert is_uniform(one + two)
    for place, vector in enumerate(sent):  # nor shifted against each other by whole masks
        others = np.concatenate([other for i, other in enumerate(sent) if i != place])
        assert len(np.intersect1d(vector, others)) == 0


def test_the_measurement_notices_what_is_not_masked() -> None:
    federation = introduce(2)
    plain = label_counts(federation)["party 0"].view(np.uint64)
    masks = directed_mask(federation.secrets["party 0"]["party 1"], "a", "b", USE, LENGTH)
    assert is_uniform(plain + masks)
    assert not is_uniform(plain)
    assert not is_uniform(plain + (masks >> np.uint64(1)))  # one bit left open
    assert not is_uniform(plain + (masks & ~np.uint64(1)))  # the lowest bit left open
    every_eighth_plain = np.where(np.arange(LENGTH) % 8 == 0, plain, plain + masks)
    assert not is_uniform(every_eighth_plain)
