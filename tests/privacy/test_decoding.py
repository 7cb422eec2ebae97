"""Decoding: exact without noise, scikit-learn's Lasso in the middle, counts that add up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from fedforest.privacy.decoding import (
    decode_counts,
    estimate_bits,
    fit_counts,
    mend_counts,
    penalties,
)
from fedforest.privacy.local_dp import LocalDP, instant_responses, permanent_responses
from tests.strategies import SEEDS

CODES = st.sampled_from(
    [
        LocalDP().resolve(2),
        LocalDP().resolve(7),
        LocalDP(bits=12, hashes=3).resolve(10),
        LocalDP(bits=6, hashes=2, keep=0.5, p=0.8, q=0.3).resolve(4),
    ]
)


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
    decoded = decode_counts(code, rounded, sizes)
    assert np.abs(decoded - counts).max() <= 1e-3 * sizes.max()


@given(CODES, SEEDS)
@settings(max_examples=40)
def test_the_fit_in_the_middle_is_scikit_learns(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2000, 3)
    sums = rng.binomial(sizes[:, None], 0.4, (3, code.bits))
    bit_counts, alphas = estimate_bits(code, sums, sizes), penalties(code, sizes)
    expected = [
        Lasso(alpha, positive=True, fit_intercept=False, tol=1e-13, max_iter=10**6)
        .fit(code.matrix, y)
        .coef_
        for alpha, y in zip(alphas, bit_counts, strict=True)
    ]
    assert fit_counts(code, bit_counts, alphas) == pytest.approx(np.array(expected), abs=1e-6)


@given(CODES, SEEDS)
@settings(max_examples=40)
def test_counts_are_non_negative_and_add_up_whatever_was_answered(code: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 50, 20)
    sums = rng.integers(0, sizes[:, None] + 1, (20, code.bits))
    counts = decode_counts(code, sums, sizes)
    assert counts.shape == (20, code.n_classes)
    assert (counts >= 0).all()
    assert counts.sum(axis=1) == pytest.approx(sizes, abs=1e-9)


def test_no_queries_have_no_counts() -> None:
    code = LocalDP().resolve(3)
    assert decode_counts(code, np.zeros((0, 3), np.int64), np.zeros(0, np.int64)).shape == (0, 3)


def test_many_noisy_rows_are_decoded_to_nearly_their_counts() -> None:
    rng = np.random.default_rng(5)
    code = LocalDP(bits=12, hashes=2, keep=0.8, p=0.8, q=0.2).resolve(5)
    labels = rng.choice(5, 100_000, p=[0.5, 0.25, 0.15, 0.1, 0.0]).astype(np.uint16)
    responses = permanent_responses(code, labels, np.arange(100_000, dtype=np.uint64), b"d" * 32)
    bits = (responses[:, None] >> np.arange(12, dtype=np.uint64)) & np.uint64(1)
    sizes = np.array([len(labels)])
    sums = bits.sum(axis=0, dtype=np.int64)[None]
    counts = decode_counts(code, instant_responses(code, sums, sizes, b"i" * 32), sizes)[0]
    # a count's standard deviation is about 0.005 of the rows
    assert counts / 100_000 == pytest.approx([0.5, 0.25, 0.15, 0.1, 0.0], abs=0.025)


def test_noisy_counts_are_mended_to_the_nearest_that_add_up() -> None:
    noisy = np.array([[11, -3, 5], [0, 0, 0]])
    mended = mend_counts(noisy, np.array([10, 6]))
    assert mended == pytest.approx(np.array([[8.0, 0.0, 2.0], [2.0, 2.0, 2.0]]))
    assert noisy.tolist() == [[11, -3, 5], [0, 0, 0]]
