"""What is refused when it arrives: too short, too long, out of range, or written otherwise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.kernels.sums.prime_field import PRIME
from fedforest.protocol.aggregation.payloads import (
    LARGEST_SUM,
    MaskedSums,
    NoisySums,
    OpenShares,
    PlainSums,
    ShareSum,
    StepEcho,
)
from tests.protocol.vertical.mutations import little_memory

SUMS = npst.arrays(
    np.int64,
    st.integers(0, 30),
    elements=st.integers(1 - LARGEST_SUM, LARGEST_SUM - 1) | st.integers(-70, 70),
)
WORDS = npst.arrays(np.uint64, st.integers(0, 30))


@given(SUMS, st.sampled_from([PlainSums, NoisySums]))
def test_sums_arrive_as_they_left(sums: NDArray[np.int64], payload: type[PlainSums]) -> None:
    sent = payload.of(sums)
    assert sent.read(len(sums)).tolist() == sums.tolist()
    for length in {len(sums) - 1, len(sums) + 1} - {-1}:
        with pytest.raises(ProtocolError, match=f"{length} numbers"):
            sent.read(length)


def test_small_counts_take_one_byte_each() -> None:
    assert len(PlainSums.of(np.arange(-64, 64)).data) == 128


@pytest.mark.parametrize("number", [LARGEST_SUM, -LARGEST_SUM, 2**63 - 1, -(2**63)])
def test_a_sum_that_could_overflow_when_it_is_added_is_refused(number: int) -> None:
    with pytest.raises(ProtocolError, match="too large"):
        PlainSums.of(np.array([3, number])).read(2)


@pytest.mark.parametrize("data", [b"\x80", b"\x80\x00", b"\xff" * 11, b"\x01\x80"])
def test_sums_that_are_not_written_as_we_write_them_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="sums"):
        PlainSums(memoryview(data)).read(len(data))
    with pytest.raises(ProtocolError, match="sums"):
        PlainSums(memoryview(data)).read(1)


def test_few_bytes_that_claim_to_be_many_numbers_take_no_memory() -> None:
    with little_memory(2**24), pytest.raises(ProtocolError, match="3 bytes"):
        PlainSums(memoryview(b"\1\2\3")).read(2**33)


@given(WORDS)
def test_masked_sums_arrive_as_they_left(masked: NDArray[np.uint64]) -> None:
    assert MaskedSums.of(masked).read(len(masked)).tolist() == masked.tolist()


@given(WORDS, st.sampled_from([OpenShares, ShareSum]))
def test_shares_arrive_as_they_left_and_are_elements_of_the_field(
    words: NDArray[np.uint64], payload: type[OpenShares]
) -> None:
    shares = words % np.uint64(PRIME)
    assert payload.of(shares).read(len(shares)).tolist() == shares.tolist()
    for outside in (PRIME, PRIME + 1, 2**64 - 1):
        with pytest.raises(ProtocolError, match="not in the field"):
            payload.of(np.append(shares, np.uint64(outside))).read(len(shares) + 1)


@pytest.mark.parametrize("payload", [MaskedSums, OpenShares, ShareSum])
def test_too_few_or_too_many_words_are_refused(payload: Any) -> None:
    sent = payload.of(np.ones(3, np.uint64))
    for length in (0, 2, 4, 2**60):
        with pytest.raises(ProtocolError, match="24 bytes"):
            sent.read(length)
    with pytest.raises(ProtocolError, match="23 bytes"):
        payload(sent.data[1:]).read(3)


def test_a_reply_says_which_step_it_answers() -> None:
    StepEcho(7).check_is(7)
    with pytest.raises(ProtocolError, match="answers step 7, not 8"):
        StepEcho(7).check_is(8)
