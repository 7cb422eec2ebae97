"""ChaCha20 words: the standard's, in an order of our own, and uniform whatever is made of them."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedforest.errors import PrivacyError
from fedforest.kernels.noise.chacha import (
    next_below,
    next_unit,
    next_word,
    open_stream,
    refill,
)
from tests.reference import chacha as reference
from tests.strategies import IS_PLAIN_PYTHON

LANES = reference.LANES
N_WORDS = 16 * LANES  # buffered
N_EXAMPLES = 3 if IS_PLAIN_PYTHON else 25
KEYS = st.binary(min_size=32, max_size=32)
NUMBERS = st.integers(0, 2**64 - 1)
COUNTERS = st.integers(0, 2**64 - 1) | st.integers(2**32 - 65, 2**32 + 1)

# RFC 8439: section 2.3.2; appendix A.1, vectors 1 and 2
VECTORS = [
    (
        bytes(range(32)),
        [1, 0x09000000, 0x4A000000, 0],
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        bytes(32),
        [0, 0, 0, 0],
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(32),
        [1, 0, 0, 0],
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
]


def next_words(stream: NDArray[np.uint32], n_words: int) -> list[int]:
    return [int(next_word(stream)) for _ in range(n_words)]


def stream_of(words: list[int]) -> NDArray[np.uint32]:
    """A stream whose next buffered words are these."""
    stream = open_stream(bytes(32))
    stream[: len(words)] = words
    stream[N_WORDS + 16] = 0
    return stream


@pytest.mark.parametrize(("key", "inputs", "block"), VECTORS)
def test_blocks_are_those_of_the_standard(key: bytes, inputs: list[int], block: str) -> None:
    stream = open_stream(key)
    stream[N_WORDS + 12 : N_WORDS + 16] = inputs
    refill(stream)
    assert stream[:N_WORDS:LANES].astype("<u4").tobytes().hex() == block
    assert np.array(reference.block(key, inputs), "<u4").tobytes().hex() == block


@given(KEYS, NUMBERS, COUNTERS)
@settings(max_examples=N_EXAMPLES)
def test_a_stream_is_its_keys_blocks_one_after_the_other(
    key: bytes, number: int, counter: int
) -> None:
    stream = open_stream(key, number)
    stream[N_WORDS + 12 : N_WORDS + 14] = counter % 2**32, counter // 2**32
    words = next_words(stream, N_WORDS)  # the buffer is filled twice
    halves = list(islice(reference.halves(key, number, counter), 2 * N_WORDS))
    expected = [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]
    assert words == expected


def test_streams_of_other_numbers_and_keys_share_no_word() -> None:
    streams = [open_stream(bytes(32), number) for number in (0, 1, 2**32, 2**64 - 1)]
    streams += [open_stream(bytes([1 << k]) + bytes(31)) for k in range(4)]
    words = [word for stream in streams for word in next_words(stream, 200)]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("n_bytes", [0, 16, 31, 33])
def test_a_key_of_the_wrong_length_is_refused(n_bytes: int) -> None:
    with pytest.raises(PrivacyError, match=f"32 bytes, not {n_bytes}"):
        open_stream(bytes(n_bytes))


def test_units_are_strictly_inside_whatever_the_words_are() -> None:
    stream = stream_of([0, 0, 2**32 - 1, 2**32 - 1])
    assert [next_unit(stream), next_unit(stream)] == [2.0**-53, 1.0 - 2.0**-53]


def test_units_are_uniform() -> None:
    n_units = 2000 if IS_PLAIN_PYTHON else 200_000
    stream = open_stream(b"u" * 32)
    units = [next_unit(stream) for _ in range(n_units)]
    assert stats.kstest(units, "uniform").pvalue > 1e-6  # a false alarm once in a million keys


def test_a_bounded_draw_skips_the_words_that_would_make_some_results_likelier() -> None:
    # 2^32 = 1 mod 3: of the 2^32 words one, whose product has the lowest lower half, is too many
    stream = stream_of([0, 1, 2**31, 2**32 - 1])
    assert [int(next_below(stream, np.uint64(3))) for _ in range(3)] == [0, 1, 2]
    whole = stream_of([0, 5, 2**32 - 1])
    assert [int(next_below(whole, np.uint64(2**32))) for _ in range(3)] == [0, 5, 2**32 - 1]


@pytest.mark.parametrize("bound", [3, 5, 6, 7, 100, 2**31 + 1])
def test_every_result_of_a_bounded_draw_has_as_many_words(bound: int) -> None:
    # words are kept where the lower half of the product is at least 2^32 mod bound
    skipped = 2**32 % bound
    for result in {0, 1, bound // 2, bound - 1}:
        first = -(-(result * 2**32 + skipped) // bound)
        last = ((result + 1) * 2**32 - 1) // bound
        assert last - first + 1 == 2**32 // bound
        for word in (first, last):
            assert int(next_below(stream_of([word]), np.uint64(bound))) == result


@given(st.integers(1, 2**32), KEYS)
@settings(max_examples=N_EXAMPLES)
def test_a_bounded_draw_is_below_its_bound(bound: int, key: bytes) -> None:
    stream = open_stream(key)
    assert all(int(next_below(stream, np.uint64(bound))) < bound for _ in range(5))


def test_a_word_skips_a_single_half_that_is_left() -> None:
    stream, other = open_stream(bytes(32)), open_stream(bytes(32))
    next_words(stream, N_WORDS // 2 - 1)
    next_below(stream, np.uint64(2**32))  # takes one half of the last two
    next_words(other, N_WORDS // 2)
    assert next_word(stream) == next_word(other)


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 33, 1000])
def test_bounded_draws_are_uniform(bound: int) -> None:
    n_draws = 500 if IS_PLAIN_PYTHON else 50_000
    stream = open_stream(bytes([bound % 256]) * 32)
    draws = [int(next_below(stream, np.uint64(bound))) for _ in range(n_draws)]
    counts = np.bincount(draws, minlength=bound)
    if bound > 1:
        assert stats.chisquare(counts).pvalue > 1e-6  # a false alarm once in a million keys
    else:
        assert counts.tolist() == [n_draws]
