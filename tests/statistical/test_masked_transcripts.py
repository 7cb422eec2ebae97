"""What masked trainings show, measured: to the coordinator alone, and with peers colluding.

Randomness is seeded. With other seeds right masks would fail one of these tests about once in 10^7
runs: there are fewer than 100 comparisons, each a chi-square test that gives a false alarm once in
10^9 cases.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.masking.peers import choose_peers
from fedforest.protocol.aggregation.base import Answers
from fedforest.protocol.aggregation.masked import MaskedAggregator
from fedforest.protocol.aggregation.messages import (
    Counted,
    CountMasked,
    CountParts,
    MaskedCounted,
)
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.aggregation.packing import PerWord, bind_packing, pack
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.aggregation.session import PeerSession, digest_part
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode
from tests.masking.federations import (
    Federation,
    OneVector,
    neighbours,
    strip_known_masks,
    unmask_sum,
)
from tests.protocol.horizontal.federations import OpenTraining, Shares, train_openly
from tests.protocol.horizontal.transcripts import SpiedParty
from tests.statistical.uniformity import chance_of, chance_of_words

FALSE_ALARM = 1e-9
NAMES = ("p0", "p1", "p2", "p3")
LEAST_WORDS = 5 * 256  # five for each cell of a byte's table


class Sent(NamedTuple):
    """One sum of a training: what it asked for, and what everybody sent for it."""

    use: OneVector
    question: bytes
    per_word: PerWord
    masked: dict[str, NDArray[np.uint64]]


@cache
def train_masked(plug: Plug) -> OpenTraining:
    rng = np.random.default_rng(0)
    shares = Shares(rng.normal(size=(200, 5)), rng.integers(0, 3, 200), np.arange(200) % 4)
    return train_openly(shares, plug, party_options={"make_party": SpiedParty}, n_estimators=40)


def exchanges(
    training: OpenTraining, reply: type
) -> Iterator[tuple[CountParts[Any], dict[str, Any]]]:
    """Every request to count, and the replies to it."""
    recorder = training.recorder
    for sent, heard in zip(recorder.requests, recorder.replies, strict=True):
        request = decode(next(iter(sent.values())), REQUESTS)
        if isinstance(request, CountParts):
            yield request, {party: decode(data, (reply,)) for party, data in heard.items()}


def sums_of(training: OpenTraining) -> Iterator[Sent]:
    session = session_of(training, "p0")
    for request, replies in exchanges(training, MaskedCounted):
        (part,) = request.parts  # all trees have the same participants
        told = spied(training, "p0").told[bytes(part.question)]
        assert isinstance(request, CountMasked)
        digest = digest_part(part.participants, part.question, told)
        digest = bind_packing(digest, request.per_word)
        masked = {p: np.frombuffer(reply.sums.data, "<u8") for p, reply in replies.items()}
        use = OneVector(session.id, request.step, digest)
        yield Sent(use, bytes(part.question), request.per_word, masked)


def spied(training: OpenTraining, party: str) -> SpiedParty:
    party_of_training = training.parties[party]
    assert isinstance(party_of_training, SpiedParty)
    return party_of_training


def session_of(training: OpenTraining, party: str) -> PeerSession:
    """What a party knows of the others: all that a colluder can add."""
    aggregator = training.parties[party]._aggregator
    assert isinstance(aggregator, MaskedAggregator)
    return aggregator._meeting.session()


def known_secrets(training: OpenTraining) -> Federation:
    sessions = {party: session_of(training, party) for party in NAMES}
    secrets = {party: dict(session.pair_secrets) for party, session in sessions.items()}
    return Federation(NAMES, secrets, dict(sessions["p0"].seeds))


def words_by_party(sums: Iterator[Sent]) -> dict[str, NDArray[np.uint64]]:
    words = defaultdict(list)
    for sent in sums:
        for party, vector in sent.masked.items():
            words[party].append(vector)
    return {party: np.concatenate(vectors) for party, vectors in words.items()}


@pytest.mark.parametrize("k", [None, 3, 2, 1])
def test_every_vector_of_a_masked_training_is_uniform(k: int | None) -> None:
    """At k = n - 1 all are mutual peers: every vector is under the masks of all."""
    training = train_masked(Masked(k))
    for words in words_by_party(sums_of(training)).values():
        assert len(words) > LEAST_WORDS
        assert chance_of_words(words) > FALSE_ALARM


def test_plain_trainings_of_the_same_rows_fail_the_same_measurement() -> None:
    vectors: dict[str, list[NDArray[np.uint8]]] = defaultdict(list)
    for _, replies in exchanges(train_masked("plain"), Counted):
        for party, reply in replies.items():
            vectors[party].append(np.frombuffer(reply.sums.data, np.uint8))
    for party in NAMES:
        sent = np.concatenate(vectors[party])
        assert len(sent) > LEAST_WORDS
        counts = np.bincount(sent, minlength=256)
        assert chance_of(counts, 1) < FALSE_ALARM
    spied = train_masked(Masked()).parties["p0"]
    assert isinstance(spied, SpiedParty)
    plain = np.concatenate(list(spied.answers.values())).view(np.uint64)
    assert chance_of_words(plain) < FALSE_ALARM


@pytest.mark.parametrize("k", [1, 2, 3])
def test_masked_sums_are_the_sums_of_what_parties_counted(k: int) -> None:
    training = train_masked(Masked(k))
    for sent in sums_of(training):
        plain = sum(answer(training, party, sent) for party in NAMES)
        assert unmask_sum(list(sent.masked.values())).tolist() == np.asarray(plain).tolist()


def answer(training: OpenTraining, party: str, sent: Sent) -> NDArray[np.int64]:
    """What a party counted, as the words that it masked."""
    spied = training.parties[party]
    assert isinstance(spied, SpiedParty)
    return pack(Answers.of([spied.answers[sent.question]]), sent.per_word).together


def strip(training: OpenTraining, sent: Sent, k: int, colluders: Collection[str]) -> Any:
    """What is left of everybody's vector when colluders take off all masks they know."""
    federation = known_secrets(training)
    peers = choose_peers(federation.seeds, NAMES, k, sent.use.step)
    return strip_known_masks(federation, sent.masked, peers, colluders, sent.use)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_with_one_peer_fewer_than_k_a_partys_vectors_stay_uniform(k: int) -> None:
    """The coordinator with any k - 1 others: take off what they know, it is uniform still."""
    training = train_masked(Masked(k))
    victim, colluders = "p0", ("p1", "p3")[: k - 1]
    left = [strip(training, sent, k, colluders)[victim] for sent in sums_of(training)]
    words = np.concatenate(left)
    assert len(words) > LEAST_WORDS
    assert chance_of_words(words) > FALSE_ALARM


@pytest.mark.parametrize("k", [1, 2, 3])
def test_with_all_k_peers_a_partys_vector_is_laid_open(k: int) -> None:
    """As the paper says, where nobody else chose the victim: every such step of the training."""
    training = train_masked(Masked(k))
    seeds = known_secrets(training).seeds
    n_exposed = 0
    for sent in sums_of(training):
        peers = choose_peers(seeds, NAMES, k, sent.use.step)
        for victim in NAMES:
            if neighbours(victim, peers) == set(peers[victim]):
                left = strip(training, sent, k, peers[victim])[victim]
                assert left.view(np.int64).tolist() == answer(training, victim, sent).tolist()
                n_exposed += 1
    assert n_exposed >= 1
