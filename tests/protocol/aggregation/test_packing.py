"""Counts that share words under masks: the same sums in fewer words, and no new way to see counts.

The hostile coordinator of these tests asks for any width, and different ones of different parties.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import MaskingError
from fedforest.protocol.aggregation.base import Answers, Segment
from fedforest.protocol.aggregation.messages import REQUESTS, CountMasked, Part
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.aggregation.packing import (
    PerWord,
    choose_per_word,
    count_words,
    fits_always,
    pack,
    unpack,
)
from fedforest.transport.codec import decode, encode
from tests.protocol.aggregation.federations import Federation, federation
from tests.protocol.named_replies import replies_to

PACKINGS: tuple[PerWord, ...] = (1, 2, 4, 8)
NAMES = ("p0", "p1", "p2")


def counts(largest: int, lengths: tuple[int, ...]) -> dict[str, dict[bytes, NDArray[np.int64]]]:
    """Counts of three parties, whose sums are at most `largest`."""
    rng = np.random.default_rng((largest, *lengths))
    each = largest // len(NAMES)
    return {
        name: {
            b"q%d" % place: rng.integers(0, each + 1, length)
            for place, length in enumerate(lengths)
        }
        for name in NAMES
    }


def add_up(vectors: list[NDArray[np.int64]], per_word: PerWord) -> list[int]:
    """The words of each party added modulo 2^64."""
    words = [pack(Answers.of([own]), per_word).together.view(np.uint64) for own in vectors]
    return [int(sum(map(int, column)) % 2**64) for column in zip(*words, strict=True)]


def add_shifted(total: list[int], per_word: PerWord) -> list[int]:
    """The reference: words of the sum alone, number by number."""
    if per_word == 1:
        return [number % 2**64 for number in total]
    bits, parts = 64 // per_word, range(0, len(total), per_word)
    own = [total[first : first + per_word] for first in parts]
    return [sum(n << bits * k for k, n in enumerate(few)) % 2**64 for few in own] + [0]


@given(
    st.sampled_from(PACKINGS),
    st.lists(st.lists(st.integers(0, 2**62), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(0, 5),
)
def test_words_of_a_sum_follow_from_the_sum_alone_whatever_fits_a_field(
    per_word: PerWord, numbers: list[list[int]], length: int
) -> None:
    vectors = [np.array(own[:length], np.int64) for own in numbers]
    total = [sum(column) for column in zip(*(own[:length] for own in numbers), strict=True)]
    assert add_up(vectors, per_word) == add_shifted(total, per_word)


@given(st.sampled_from(PACKINGS), st.lists(st.integers(0, 255), max_size=20))
def test_numbers_that_fit_are_read_as_they_were_packed(per_word: PerWord, own: list[int]) -> None:
    packed = pack(Answers.of([np.array(own, np.int64)]), per_word)
    assert packed.lengths == [len(packed.together)] == [count_words(len(own), per_word)]
    segment = Segment(NAMES, b"q0", len(own), largest_count=255)
    assert unpack(packed.together, segment, per_word).tolist() == own


@pytest.mark.parametrize(
    ("largest", "per_word"),
    [(0, 8), (255, 8), (256, 4), (2**16 - 1, 4), (2**16, 2), (2**32 - 1, 2), (2**32, 1)],
)
def test_as_many_share_a_word_as_the_largest_sum_allows(largest: int, per_word: int) -> None:
    segment = Segment(NAMES, b"q0", 3, largest_count=largest)
    assert choose_per_word([segment, replace(segment, largest_count=0)]) == per_word
    assert choose_per_word([segment, replace(segment, largest_count=None)]) == 1


@pytest.mark.parametrize("largest", [250, 60_000, 2**31, 2**40])
def test_packed_sums_of_several_questions_are_exact(largest: int) -> None:
    vectors = counts(largest, (0, 1, 7, 8, 9, 64))
    together = federation(Masked(), vectors).introduce()
    segments = [
        replace(together.segment(question), largest_count=largest) for question in vectors["p0"]
    ]
    for one, total in zip(segments, together.gather(1, segments).sums, strict=True):
        expected = sum(own[one.question] for own in vectors.values())
        np.testing.assert_array_equal(total, expected)


def test_small_counts_travel_in_an_eighth_of_the_bytes() -> None:
    vectors = counts(200, (8_000,))
    n_bytes = []
    for largest in (None, 200):
        together = federation(Masked(), vectors).introduce()
        wanted = replace(together.segment(b"q0"), largest_count=largest)
        together.gather(1, [wanted])
        n_bytes.append(len(together.network.replies[-1]["p0"]))
    assert n_bytes[1] < n_bytes[0] / 7


def test_packed_vectors_whose_masks_do_not_cancel_are_found_out() -> None:
    vectors = {f"p{number}": {b"q0": np.arange(3)} for number in range(5)}
    parties, others = (federation(Masked(k), vectors).introduce() for k in (1, 2))
    parties.network.endpoints = {**parties.network.endpoints, "p3": others.network.endpoints["p3"]}
    wanted = replace(parties.segment(b"q0"), largest_count=255)
    with pytest.raises(MaskingError, match="did not cancel"):
        parties.gather(1, [wanted])


def ask_each(together: Federation, packings: dict[str, PerWord]) -> dict[str, NDArray[np.uint64]]:
    """What each party says when it is asked for its own packing."""
    said = {}
    for party, per_word in packings.items():
        request = CountMasked(1, (Part(NAMES, memoryview(b"q0")),), per_word)
        reply: Any = decode(
            together.network.endpoints[party](encode(request)), replies_to(REQUESTS)
        )
        said[party] = np.frombuffer(reply.sums.data, "<u8")
    return said


def test_parties_that_are_told_of_different_packings_share_no_mask() -> None:
    """Else fields of one party would stand alone beside those of the others.

    Four numbers are two words, the last of them zero, in either packing.
    """
    vectors = counts(100, (4,))
    packings: dict[str, PerWord] = {"p0": 8, "p1": 8, "p2": 4}
    said = ask_each(federation(Masked(), vectors).introduce(), packings)
    assert {len(own) for own in said.values()} == {2}
    assert sum(int(own[1]) for own in said.values()) % 2**64 != 0
    same = ask_each(federation(Masked(), vectors).introduce(), dict.fromkeys(NAMES, 8))
    assert sum(int(own[1]) for own in same.values()) % 2**64 == 0


@pytest.mark.parametrize("per_word", [2, 4, 8])
def test_a_party_does_not_tell_by_refusing_how_large_its_counts_are(per_word: PerWord) -> None:
    small, large = ({name: {b"q0": np.full(9, number)} for name in NAMES} for number in (1, 2**40))
    for vectors in (small, large):
        said = ask_each(federation(Masked(), vectors).introduce(), dict.fromkeys(NAMES, per_word))
        assert {len(own) for own in said.values()} == {count_words(9, per_word)}


@pytest.mark.parametrize("per_word", PACKINGS)
def test_sums_go_unchecked_only_where_no_field_can_be_too_large(per_word: PerWord) -> None:
    most = 2 ** (64 // per_word) - 1  # of a field
    for largest in (254, 255, 256, 2**16 - 1, 2**16, 2**32, 2**58):
        if fits_always(Segment(NAMES, b"q", 1, largest), per_word):
            assert most <= largest
    assert not fits_always(Segment(NAMES, b"q", 1, 100), per_word)
