"""Masks cancel in the sum and nowhere else, and are bound to the one vector they are for."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.masking.keystream import PIECE_WORDS
from fedforest.masking.masks import Masker, Summand
from fedforest.masking.peers import choose_partners, choose_peers
from tests.masking.federations import (
    USE,
    Federation,
    OneVector,
    Peers,
    directed_mask,
    introduce,
    mask_one,
    neighbours,
    own_mask,
    unmask_sum,
)

SECRET = sha256(b"pair secret").digest()
LIMITS = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])
NUMBERS = st.one_of(LIMITS, st.integers(-(2**63), 2**63 - 1))
PAIR: Peers = {"party 0": ("party 1",), "party 1": ("party 0",)}


def wrap(number: int) -> int:
    """The integer in int64 that equals this one modulo 2^64."""
    return (number + 2**63) % 2**64 - 2**63


@settings(max_examples=60)
@given(st.data(), st.integers(2, 7), st.integers(0, 5), st.integers(0, 2**64 - 1))
def test_masked_vectors_add_up_to_the_plain_sum(
    data: st.DataObject, n_parties: int, length: int, step: int
) -> None:
    federation = introduce(n_parties)
    k = data.draw(st.one_of(st.none(), st.integers(1, n_parties)))
    vectors = st.lists(NUMBERS, min_size=length, max_size=length)
    plain = {name: data.draw(vectors) for name in federation.names}
    peers = choose_peers(federation.seeds, federation.names, k, step)
    arrays = {name: np.array(plain[name], np.int64) for name in plain}
    masked = federation.mask_all(arrays, peers, USE._replace(step=step))
    total = unmask_sum([masked[name] for name in federation.names])
    assert total.dtype == np.int64
    assert total.tolist() == [wrap(sum(column)) for column in zip(*plain.values(), strict=True)]
    assert [arrays[name].tolist() for name in plain] == list(plain.values())  # left as they were


@pytest.mark.parametrize(
    "length", [PIECE_WORDS - 1, PIECE_WORDS, PIECE_WORDS + 1, 2 * PIECE_WORDS + 3]
)
def test_a_vector_is_masked_piece_by_piece_as_in_one_go(length: int) -> None:
    federation, rng = introduce(4), np.random.default_rng(length)
    peers = choose_peers(federation.seeds, federation.names, 2, 0)
    plain = rng.integers(-(2**62), 2**62, length)
    for party in federation.names:
        expected = plain.view(np.uint64).copy()
        for other in neighbours(party, peers):
            expected += own_mask(federation.secrets[party][other], party, other, USE, length)
        masked = mask_one(plain, party, peers, federation.secrets[party])
        assert np.array_equal(masked, expected)


def test_a_strided_or_read_only_vector_is_masked_as_its_copy() -> None:
    federation = introduce(2)
    secrets = federation.secrets["party 0"]
    wide = np.arange(40)
    wide.setflags(write=False)
    masked = mask_one(wide[::-2], "party 0", PAIR, secrets)
    assert np.array_equal(masked, mask_one(wide[::-2].copy(), "party 0", PAIR, secrets))


USES = {
    "the use itself": ("a", "b", USE, 8),
    "another run": ("a", "b", USE._replace(run=b"run of yesterday"), 8),
    "the other direction": ("b", "a", USE, 8),
    "another sender": ("c", "b", USE, 8),
    "another receiver": ("a", "c", USE, 8),
    "another step": ("a", "b", USE._replace(step=8), 8),
    "another digest": ("a", "b", USE._replace(digest=sha256(b"other").digest()), 8),
    "another length": ("a", "b", USE, 9),
    "a name that eats into the next": ("ab", "", USE, 8),
    "a run that eats into the sender": ("", "b", USE._replace(run=USE.run + b"a"), 8),
}


@pytest.mark.parametrize(("one", "other"), list(combinations(USES, 2)))
def test_a_mask_is_bound_to_run_direction_step_digest_and_length(one: str, other: str) -> None:
    first, second = directed_mask(SECRET, *USES[one]), directed_mask(SECRET, *USES[other])
    assert not set(first.tolist()) & set(second.tolist())


def test_a_mask_is_bound_to_the_pair_and_known_to_both_of_it() -> None:
    secrets = introduce(3).secrets
    one = directed_mask(secrets["party 0"]["party 1"], "party 0", "party 1", USE, 6)
    same = directed_mask(secrets["party 1"]["party 0"], "party 0", "party 1", USE, 6)
    strange = directed_mask(secrets["party 2"]["party 0"], "party 0", "party 1", USE, 6)
    assert np.array_equal(one, same)
    assert not set(one.tolist()) & set(strange.tolist())


def mask_pair(peers: Peers, party: str = "party 0") -> object:
    return mask_one(np.arange(3), party, peers, introduce(3).secrets["party 0"])


def mask_under(use: OneVector) -> object:
    return mask_one(np.arange(3), "party 0", PAIR, introduce(3).secrets["party 0"], use)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: mask_pair({"party 0": (), "party 1": ("party 0",)}), "'party 0' has no peers"),
        (lambda: mask_pair({"party 0": ("party 1",), "party 1": ()}), "'party 1' has no peers"),
        (lambda: mask_pair({**PAIR, "party 0": ("party 1", "party 0")}), "is its own peer"),
        (lambda: mask_pair({**PAIR, "party 0": ("party 1", "party 1")}), "names a peer twice"),
        (lambda: mask_pair({**PAIR, "party 0": ("party 2",)}), "take no part.*: 'party 2'"),
        (lambda: mask_pair({"party 0": ("party 9",), "party 9": ("party 0",)}), "'party 9'"),
        (lambda: mask_pair(PAIR, "party 2"), "'party 2' .* takes no part"),
        (lambda: mask_pair({}), "takes no part"),
        (lambda: mask_under(USE._replace(digest=b"short")), "digest of 32 bytes"),
        (lambda: mask_under(USE._replace(run=b"")), "nothing names the run"),
        (lambda: mask_under(USE._replace(step=-1)), "-1 cannot be bound"),
        (lambda: mask_under(USE._replace(step=2**64)), "cannot be bound"),
        (lambda: directed_mask(SECRET, "a", "a", USE, 3), "with itself"),
        (lambda: directed_mask(SECRET[:20], "a", "b", USE, 3), "32 secret bytes, not 20"),
        (lambda: directed_mask(SECRET, "a", "\udc00", USE, 3), "not text"),
    ],
)
def test_what_would_leave_a_vector_unmasked_is_refused(
    mistake: Callable[[], object], message: str
) -> None:
    with pytest.raises(MaskingError, match=message) as caught:
        mistake()
    shown = str(caught.value)
    for secret in [SECRET, *introduce(3).secrets["party 0"].values()]:
        assert secret.hex()[:8] not in shown
        assert repr(secret[:4])[2:-1] not in shown


@pytest.mark.parametrize(
    "vector", [np.arange(3.0), np.arange(3, dtype=np.int32), np.zeros((2, 2), np.int64)]
)
def test_anything_but_a_vector_of_int64_is_refused(vector: NDArray[np.int64]) -> None:
    with pytest.raises(MaskingError, match="a vector of int64 can be masked"):
        mask_one(vector, "party 0", PAIR, introduce(3).secrets["party 0"])


Groups = dict[bytes, tuple[str, ...]]  # the participants of every sum, by its digest
GROUPS: Groups = {
    sha256(b"of all").digest(): ("party 0", "party 1", "party 2", "party 3"),
    sha256(b"of two").digest(): ("party 0", "party 1"),
    sha256(b"of others").digest(): ("party 2", "party 3", "party 1"),
    sha256(b"of the same two").digest(): ("party 1", "party 0"),
}


def reply_to(
    federation: Federation, party: str, groups: Groups, vectors: dict[bytes, NDArray[np.int64]]
) -> dict[bytes, NDArray[np.uint64]]:
    """What one party sends in a step that asks for several sums; it hears of its own ones only."""
    own = {digest: members for digest, members in groups.items() if party in members}
    sums = {digest: (vectors[digest], members) for digest, members in own.items()}
    return mask_several(federation, party, sums, None)


def mask_several(
    federation: Federation,
    party: str,
    sums: Mapping[bytes, tuple[NDArray[np.int64], Sequence[str]]],
    k: int | None,
) -> dict[bytes, NDArray[np.uint64]]:
    """A party's vector in each sum, by its digest, out of one reply; who is in it is told."""
    summands = [
        Summand(len(plain), choose_partners(party, federation.seeds, members, k, 1), digest)
        for digest, (plain, members) in sums.items()
    ]
    plain = np.concatenate([plain for plain, _ in sums.values()] or [np.zeros(0, np.int64)])
    masked = Masker(party, federation.secrets[party], USE.run).mask(plain, summands, 1)
    ends = np.cumsum([summand.length for summand in summands], dtype=np.int64)[:-1]
    return dict(zip(sums, np.split(masked, ends), strict=True)) if sums else {}


@settings(max_examples=40)
@given(st.data(), st.integers(2, 6), st.one_of(st.none(), st.integers(1, 3)))
def test_several_sums_over_different_parties_come_out_right_in_one_step(
    data: st.DataObject, n_parties: int, k: int | None
) -> None:
    federation = introduce(n_parties)
    members = st.permutations(federation.names).flatmap(
        lambda names: st.integers(2, n_parties).map(lambda n: tuple(names[:n]))
    )
    groups = data.draw(st.lists(members, min_size=1, max_size=5))
    lengths = [data.draw(st.integers(0, 3)) for _ in groups]
    rng = np.random.default_rng(0)
    sent: list[list[NDArray[np.uint64]]] = [[] for _ in groups]
    plain = [rng.integers(-9, 9, (len(group), n)) for group, n in zip(groups, lengths, strict=True)]
    for party in federation.names:
        places = [place for place, group in enumerate(groups) if party in group]
        own = {
            sha256(bytes([place])).digest(): (
                plain[place][groups[place].index(party)],
                groups[place],
            )
            for place in places
        }
        masked = mask_several(federation, party, own, k)
        for place, vector in zip(places, masked.values(), strict=True):
            sent[place].append(vector)
    for vectors, expected in zip(sent, plain, strict=True):
        assert unmask_sum(vectors).tolist() == expected.sum(axis=0).tolist()


def test_a_masker_masks_every_step_as_one_that_masked_no_other() -> None:
    federation = introduce(4)
    me, *others = federation.names
    digests = [sha256(bytes([place])).digest() for place in range(2)]
    plain = np.arange(5)
    masker = Masker(me, federation.secrets[me], USE.run)
    partners = [others, others, others[:1], others[1:], others]
    for step, (first, second) in enumerate(pairwise(partners)):
        summands = [Summand(2, tuple(first), digests[0]), Summand(3, tuple(second), digests[1])]
        alone = Masker(me, federation.secrets[me], USE.run).mask(plain, summands, step)
        assert masker.mask(plain, summands, step).tolist() == alone.tolist()
        with pytest.raises(MaskingError, match="has no peers"):
            masker.mask(plain, [summands[0], summands[1]._replace(partners=())], step)


def test_no_word_of_a_mask_is_used_twice_in_a_step() -> None:
    """All vectors are zero, so everybody sends nothing but masks."""
    federation, length = introduce(4), 100
    zeros = dict.fromkeys(GROUPS, np.zeros(length, np.int64))
    words = [
        word
        for party in federation.names
        for vector in reply_to(federation, party, GROUPS, zeros).values()
        for word in vector.tolist()
    ]
    # two parties alone send the mask they share, once with each sign
    assert len({min(word, 2**64 - word) for word in words}) == len(words) - 2 * length
    assert 0 not in words


def told_differently(hidden: bytes, length: int) -> dict[str, dict[bytes, NDArray[np.uint64]]]:
    """Replies of two parties, the second of which was not told of one of their sums."""
    federation = introduce(4)
    zeros = dict.fromkeys(GROUPS, np.zeros(length, np.int64))
    fewer = {digest: members for digest, members in GROUPS.items() if digest != hidden}
    return {
        "party 0": reply_to(federation, "party 0", GROUPS, zeros),
        "party 1": reply_to(federation, "party 1", fewer, zeros),
    }


@pytest.mark.parametrize("hidden", list(GROUPS))
def test_parties_that_were_told_of_different_sums_share_no_mask(hidden: bytes) -> None:
    """A coordinator gains nothing by it: masks of another list are other masks."""
    of_two = [digest for digest, members in GROUPS.items() if len(members) == 2]
    replies = told_differently(hidden, 50)
    for digest in of_two:
        if digest == hidden:
            continue
        total = replies["party 0"][digest] + replies["party 1"][digest]
        hides_from_both = {"party 0", "party 1"} <= set(GROUPS[hidden])
        assert total.any() == hides_from_both


def test_a_longer_vector_does_not_begin_with_the_masks_of_a_shorter_one() -> None:
    shorter, longer = (
        reply_to(
            introduce(4), "party 0", GROUPS, dict.fromkeys(GROUPS, np.zeros(n, np.int64))
        ).values()
        for n in (20, 21)
    )
    for one, other in zip(shorter, longer, strict=True):
        assert not set(one.tolist()) & set(other.tolist())


def test_a_reply_of_another_length_than_its_sums_is_refused() -> None:
    masker = Masker("party 0", introduce(2).secrets["party 0"], USE.run)
    summand = Summand(3, ("party 1",), USE.digest)
    for length in (2, 4):
        with pytest.raises(MaskingError, match=f"{length} numbers are not as many"):
            masker.mask(np.zeros(length, np.int64), [summand], 1)


@pytest.mark.parametrize(
    ("partners", "message"),
    [
        ((), "has no peers"),
        (("party 1",) * 2, "named twice"),
        (("party 0",), "no secret is shared"),
    ],
)
def test_a_vector_needs_one_mask_of_each_of_its_partners(
    partners: tuple[str, ...], message: str
) -> None:
    masker = Masker("party 0", introduce(2).secrets["party 0"], USE.run)
    with pytest.raises(MaskingError, match=message):
        masker.mask(np.zeros(3, np.int64), [Summand(3, partners, USE.digest)], 1)
