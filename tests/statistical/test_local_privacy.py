"""What rows really answer under local privacy, measured. Seeds are fixed.

With other seeds a right mechanism would fail one of these tests about once in 10^5 runs: there are
fewer than 500 comparisons, each at 5.5 standard deviations (one in 5 * 10^7).
"""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.privacy.composition import query_epsilon
from fedforest.privacy.local_dp import (
    LocalDP,
    ResponseCode,
    permanent_responses,
    respond_instantly,
)

CHUNK = 1_000_000
DEVIATIONS = 5.5
TWO = LocalDP(keep=0.9).resolve(2)
THREE = LocalDP(keep=0.5, p=0.75, q=0.25).resolve(3)
HASHED = LocalDP(keep=0.9, bits=4, hashes=2).resolve(3)
N_ROWS = {TWO.words: 4 * CHUNK, THREE.words: CHUNK, HASHED.words: CHUNK}  # of each class

Rates = NDArray[np.float64]  # (class, answer): how often rows of the class answered like this


def permanent_bits(code: ResponseCode, label: int, chunk: int) -> NDArray[np.int64]:
    ids = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=np.uint64)
    labels = np.full(CHUNK, label, np.uint16)
    responses = permanent_responses(code, labels, ids, b"permanent" + bytes(23))
    return ((responses[:, None] >> np.arange(code.bits, dtype=np.uint64)) & np.uint64(1)).astype(
        np.int64
    )


def instant_bits(code: ResponseCode, bits: NDArray[np.int64], key: bytes) -> NDArray[np.int64]:
    """What each row answers on its own."""
    sums = np.concatenate([bits, np.ones((CHUNK, 1), np.int64)], axis=1)
    respond_instantly(code, sums, key)
    return sums[:, :-1]


def measure(code: ResponseCode, n_queries: int) -> Rates:
    """Rates of the permanent response (no query), or of all answers to some queries together."""
    n_answers = 2 ** (code.bits * max(1, n_queries))
    rates = np.zeros((code.n_classes, n_answers))
    for label, chunk in product(range(code.n_classes), range(N_ROWS[code.words] // CHUNK)):
        bits = permanent_bits(code, label, chunk)
        answers = [
            instant_bits(code, bits, bytes([label, chunk, query]) + bytes(29))
            for query in range(n_queries)
        ]
        columns = [column for answer in answers or [bits] for column in answer.T]
        numbers = sum(column << k for k, column in enumerate(columns))
        rates[label] += np.bincount(numbers, minlength=n_answers)
    return rates / N_ROWS[code.words]


def promised(code: ResponseCode, n_queries: int) -> Rates:
    """The same rates by the settings."""
    p, q = (code.p, code.q) if n_queries else (1.0, 0.0)
    expected = np.ones((code.n_classes, 2 ** (code.bits * max(1, n_queries))))
    for (label, word), answer in product(enumerate(code.words), range(expected.shape[1])):
        for bit in range(code.bits):
            said = [answer >> (query * code.bits + bit) & 1 for query in range(max(1, n_queries))]
            stays = (1 + code.keep) / 2 if word >> bit & 1 else (1 - code.keep) / 2
            if_one = np.prod([p if one else 1 - p for one in said])
            if_zero = np.prod([q if one else 1 - q for one in said])
            expected[label, answer] *= stays * if_one + (1 - stays) * if_zero
    return expected


class Findings(NamedTuple):
    """By how many standard deviations rates break a promise."""

    excess: float  # of the largest likelihood ratio above epsilon
    error: float  # of the rate that is farthest from the promised one


def examine(faulty: ResponseCode, code: ResponseCode, n_queries: int, epsilon: float) -> Findings:
    """Measure the one code and compare it with what the other one promises."""
    rates, expected, n_rows = (
        measure(faulty, n_queries),
        promised(code, n_queries),
        N_ROWS[code.words],
    )
    rates_seen = np.maximum(rates, 1 / n_rows)
    logs, variance = np.log(rates_seen), (1.0 - rates_seen) / (n_rows * rates_seen)
    excess = [
        ((logs[one] - logs[other] - epsilon) / np.sqrt(variance[one] + variance[other])).max()
        for one, other in product(range(code.n_classes), repeat=2)
        if one != other
    ]
    error = np.abs(rates - expected) / np.sqrt(expected * (1.0 - expected) / n_rows)
    return Findings(float(max(excess)), float(error.max()))


@pytest.mark.parametrize("code", [TWO, THREE, HASHED])
def test_permanent_responses_tell_no_more_than_the_cap(code: ResponseCode) -> None:
    found = examine(code, code, 0, code.cap)
    assert found.excess < DEVIATIONS
    assert found.error < DEVIATIONS


@pytest.mark.parametrize("code", [TWO, THREE, HASHED])
def test_one_query_tells_no_more_than_its_epsilon(code: ResponseCode) -> None:
    found = examine(code, code, 1, query_epsilon(code))
    assert found.excess < DEVIATIONS
    assert found.error < DEVIATIONS


@pytest.mark.parametrize("code", [TWO, THREE])
def test_two_queries_tell_no_more_than_twice_that_nor_than_the_cap(code: ResponseCode) -> None:
    epsilon = min(2 * query_epsilon(code), code.cap)
    found = examine(code, code, 2, epsilon)
    assert found.excess < DEVIATIONS
    assert found.error < DEVIATIONS


@pytest.mark.parametrize("code", [TWO, THREE])
def test_the_measurement_notices_a_keep_probability_that_is_off_by_five_percent(
    code: ResponseCode,
) -> None:
    for factor in (1.05, 0.95):
        faulty = replace(code, keep=factor * code.keep)
        found = examine(faulty, code, 0, code.cap)
        assert found.error > DEVIATIONS
        assert (found.excess > DEVIATIONS) == (factor > 1)  # less noise than claimed, or more


@pytest.mark.parametrize("code", [TWO, THREE])
@pytest.mark.parametrize(
    ("name", "factor", "is_less_private"),
    [("p", 1.05, True), ("p", 0.95, False), ("q", 0.95, True), ("q", 1.05, False)],
)
def test_the_measurement_notices_an_instant_probability_that_is_off_by_five_percent(
    code: ResponseCode, name: str, factor: float, is_less_private: bool
) -> None:
    faulty = replace(code, p=factor * code.p) if name == "p" else replace(code, q=factor * code.q)
    found = examine(faulty, code, 1, query_epsilon(code))
    assert found.error > DEVIATIONS
    assert (found.excess > DEVIATIONS) == is_less_private
