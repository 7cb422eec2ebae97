"""What the coordinator sees while a sum is formed, and what it can make of it.

The masks themselves are measured in tests/statistical; here whole transcripts are looked at.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.masking.secret_shares import combine
from fedforest.protocol.aggregation.messages import REQUESTS, MaskedCounted, Passed, SharedOut
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.payloads import PlainSums
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.transport.codec import decode
from tests.protocol.aggregation.federations import PROTECTED, Federation, federation
from tests.protocol.named_replies import replies_to

N_PARTIES, LENGTH = 5, 64


def planted(plug: Plug, n_parties: int = N_PARTIES, seed: int = 0) -> Federation:
    """Vectors that are recognised wherever they appear."""
    rng = np.random.default_rng(5)
    vectors = {
        f"p{party}": {b"q0": rng.integers(2**40, 2**41, LENGTH)} for party in range(n_parties)
    }
    together = federation(plug, vectors, seed=seed).introduce()
    together.gather(1, [together.segment(b"q0")])
    return together


def own(together: Federation, party: str) -> NDArray[np.int64]:
    return together.answers[party].vectors[b"q0"]


def replies_of(together: Federation, kind: type) -> dict[str, list[Any]]:
    """Everything of one type that parties said, decoded."""
    said: dict[str, list[Any]] = {party: [] for party in together.names}
    for replies in together.network.replies:
        for party, data in replies.items():
            message = decode(data, replies_to(REQUESTS)) if kind.__name__.encode() in data else None
            if isinstance(message, kind):
                said[party].append(message)
    return said


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
def test_no_number_of_a_party_is_seen_on_its_way(plug: Plug) -> None:
    together = planted(plug)
    transcript = together.network.everything()
    for party in together.names:
        for number in own(together, party).tolist():
            for form in (number.to_bytes(6, "little"), number.to_bytes(6, "big")):
                assert form not in transcript
            assert bytes(PlainSums.of(np.array([number])).data) not in transcript


def test_the_search_finds_numbers_that_are_sent_as_they_are() -> None:
    together = planted("plain")
    transcript = together.network.everything()
    for number in own(together, "p0").tolist():
        assert bytes(PlainSums.of(np.array([number])).data) in transcript


@pytest.mark.parametrize("k", [1, 2, 3, None])
def test_masked_vectors_of_fewer_than_all_participants_add_up_to_nothing(k: int | None) -> None:
    together = planted(Masked(k))
    masked = {
        party: said[0].sums.read(LENGTH)
        for party, said in replies_of(together, MaskedCounted).items()
    }
    for size in range(1, N_PARTIES):
        for group in itertools.combinations(together.names, size):
            total = sum(masked[party] for party in group).view(np.int64)
            # below 2^45 in magnitude by chance: once in 2^18 for each number
            assert np.count_nonzero(np.abs(total) < 2**45) <= 1
    total = sum(masked.values()).view(np.int64)
    assert total.tolist() == together.expected(together.segment(b"q0")).tolist()


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_a_ring_shows_the_coordinator_nothing_but_the_last_total(n_parties: int) -> None:
    together = planted(Ring(), n_parties)
    said = replies_of(together, Passed)
    *before, last = (said[party][0] for party in together.names)
    assert all(len(reply.totals) == 1 and not reply.sums for reply in before)
    assert len(last.sums) == 1
    assert not last.totals
    # a sealed total is the total's eight bytes a number and a tag, under a key of the parties'
    assert {len(reply.totals[0].data) for reply in before} == {8 * LENGTH + 16}


@pytest.mark.parametrize("threshold", [2, 3, 6])
def test_the_coordinators_shares_alone_combine_to_no_vector(threshold: int) -> None:
    together = planted(Shamir(threshold))
    said = replies_of(together, SharedOut)
    for party in together.names:
        share = said[party][0].opened[0].read(LENGTH)
        guess = combine({N_PARTIES + 1: share, 1: np.zeros(LENGTH, np.uint64)})
        assert not np.isin(guess, own(together, party)).any()
        assert not np.isin(share.astype(np.int64), own(together, party)).any()


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
def test_the_same_vector_looks_different_in_every_step(plug: Plug) -> None:
    together = planted(plug)
    before = len(together.network.replies)
    together.gather(2, [together.segment(b"q0")])
    first = b"".join(data for r in together.network.replies[:before] for data in r.values())
    for replies in together.network.replies[before:]:
        for data in replies.values():
            pieces = [data[start : start + 8] for start in range(40, len(data) - 8, 8)]
            assert not any(piece in first for piece in pieces)


def test_who_takes_part_in_a_plain_sum_is_not_told() -> None:
    together = planted("plain")
    requests = b"".join(data for sent in together.network.requests for data in sent.values())
    assert not any(party.encode() in requests for party in together.names)
