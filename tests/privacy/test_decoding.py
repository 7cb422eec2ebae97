"""Decoding: exact without noise, scikit-learn's Lasso in the middle, counts that add up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.noise.decoding import decode_sums, mend_sums
from fedforest.privacy.decoding import PENALTY_DEVIATIONS, make_decoder
from fedforest.privacy.local_dp import (
    LocalDP,
    ResponseCode,
    permanent_responses,
    respond_instantly,
)
from tests.reference import decoding as reference
from tests.strategies import SEEDS

UNIT = 2**16
CODES = st.sampled_from(
    [
        LocalDP(keep=0.9).resolve(2),
        LocalDP(keep=0.9).resolve(7),
        LocalDP(keep=0.9, bits=5).resolve(2),
        LocalDP(keep=0.9, bits=12, hashes=3).resolve(10),
        LocalDP(bits=6, hashes=2, keep=0.5, p=0.8, q=0.3).resolve(4),
    ]
)


def decode(code: ResponseCode, bit_sums: Any, sizes: Any) -> NDArray[np.float64]:
    """Counts of classes; the units are undone."""
    sums = np.concatenate([bit_sums, np.array(sizes)[:, None]], axis=1)
    fixed = np.full((len(sums), code.n_classes + 1), -1, np.int64)
    middle = len(sums) // 2
    for part in ((middle, len(sums)), (0, middle)):
        decode_sums(sums, make_decoder(code), UNIT, fixed, *part)
    assert fixed[:, -1].tolist() == list(sizes)
    return fixed[:, :-1] / UNIT


@given(CODES, SEEDS)
@settings(max_examples=40)
def test_expected_answers_are_decoded_to_the_true_counts(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 10**9, (4, code.n_classes))
    sizes = counts.sum(axis=1)
    set_rows = counts @ code.matrix.T
    sums = code.rate_if_set * set_rows + code.rate_if_clear * (sizes[:, None] - set_rows)
    rounded = np.rint(sums).astype(np.int64)
    # answers are rounded to whole rows, and the penalty grows as the root of the size only
    decoded = decode(code, rounded, sizes)
    assert np.abs(decoded - counts).max() <= 1e-3 * sizes.max()


@given(CODES, SEEDS)
@settings(max_examples=40)
def test_counts_are_those_of_scikit_learns_lasso_made_to_add_up(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2000, 3)
    sums = rng.binomial(sizes[:, None], 0.4, (3, code.bits))
    expected = [reference.decode(code, *query) for query in zip(sums, sizes, strict=True)]
    # half a unit by rounding, and what the Lasso's tolerance leaves
    assert decode(code, sums, sizes) == pytest.approx(np.array(expected), abs=1 / UNIT)
    assert reference.PENALTY_DEVIATIONS == PENALTY_DEVIATIONS


@given(CODES, SEEDS)
@settings(max_examples=40)
def test_counts_are_non_negative_and_add_up_whatever_was_answered(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 50, 20)
    sums = rng.integers(0, sizes[:, None] + 1, (20, code.bits))
    counts = decode(code, sums, sizes)
    assert (counts >= 0).all()
    assert counts.sum(axis=1) == pytest.approx(sizes, abs=code.n_classes / UNIT)


def test_where_there_are_rows_there_is_weight() -> None:
    sums, fixed = np.array([[1] * 7 + [1], [0] * 8]), np.empty((2, 8), np.int64)
    decode_sums(sums, make_decoder(LocalDP(keep=0.9).resolve(7)), 1, fixed, 0, 2)
    assert fixed.tolist() == [[1] * 8, [0] * 8]  # a seventh of a row each would be nothing


def test_many_noisy_rows_are_decoded_to_nearly_their_counts() -> None:
    rng = np.random.default_rng(5)
    code = LocalDP(bits=12, hashes=2, keep=0.8, p=0.8, q=0.2).resolve(5)
    labels = rng.choice(5, 100_000, p=[0.5, 0.25, 0.15, 0.1, 0.0]).astype(np.uint16)
    responses = permanent_responses(code, labels, np.arange(100_000, dtype=np.uint64), b"d" * 32)
    bits = (responses[:, None] >> np.arange(12, dtype=np.uint64)) & np.uint64(1)
    sums = np.array([[*bits.sum(axis=0, dtype=np.int64), len(labels)]])
    respond_instantly(code, sums, b"i" * 32)
    counts = decode(code, sums[:, :-1], sums[:, -1])[0]
    # a count's standard deviation is about 0.005 of the rows
    assert counts / 100_000 == pytest.approx([0.5, 0.25, 0.15, 0.1, 0.0], abs=0.025)


def test_noisy_counts_are_mended_to_the_nearest_that_add_up() -> None:
    noisy = np.array([[11, -3, 5, 10], [0, 0, 0, 6]])
    fixed = np.empty_like(noisy)
    mend_sums(noisy, 4, fixed, 0, 2)
    assert fixed.tolist() == [[32, 0, 8, 10], [8, 8, 8, 6]]
