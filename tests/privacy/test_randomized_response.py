"""Randomized response: exact probabilities, exact correction."""

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ConfigurationError
from fedforest.privacy.randomized_response import LEAST_EPSILON, RandomizedResponse

EPSILONS = st.floats(LEAST_EPSILON, 30.0)
CLASSES = st.integers(2, 50)


def words(*values: int) -> bytes:
    return np.array(values, np.uint64).tobytes()


@given(EPSILONS, CLASSES)
def test_a_label_is_kept_with_the_probability_that_epsilon_says(
    epsilon: float, n_classes: int
) -> None:
    with localcontext() as context:
        context.prec = 50
        odds = Decimal(epsilon).exp()
        exact = odds / (odds + n_classes - 1)
    assert RandomizedResponse(epsilon).keep_probability(n_classes) == pytest.approx(
        float(exact), rel=1e-15
    )


@given(EPSILONS, CLASSES)
def test_no_answer_is_more_than_exp_epsilon_times_as_likely_under_another_class(
    epsilon: float, n_classes: int
) -> None:
    keep = RandomizedResponse(epsilon).keep_probability(n_classes)
    other = (1.0 - keep) / (n_classes - 1)
    assert np.log(keep / other) <= epsilon + 1e-12 * max(1.0, np.exp(epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_first_random_word_decides_at_exactly_the_keep_probability(
    epsilon: float, n_classes: int
) -> None:
    response = RandomizedResponse(epsilon)
    threshold = int(response.keep_probability(n_classes) * 2**64)
    codes = np.array([0, 0])
    noisy = response.draw(codes, n_classes, lambda _: words(threshold - 1, threshold, 0, 0))
    assert noisy.tolist() == [0, 1]


def test_the_second_random_word_chooses_among_the_other_classes_evenly() -> None:
    largest = 2**64 - 1
    randomness = words(*[largest] * 6, 0, 1, 2, 0, 1, 2)
    noisy = RandomizedResponse(1.0).draw(np.array([0, 0, 0, 2, 2, 2]), 4, lambda _: randomness)
    assert noisy.tolist() == [1, 2, 3, 3, 0, 1]


def test_a_huge_epsilon_keeps_labels_and_still_works() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 1000)
    assert RandomizedResponse(700.0).draw(codes, 5, rng.bytes).tolist() == codes.tolist()


def test_a_single_class_needs_no_noise() -> None:
    response = RandomizedResponse(0.5)
    assert response.keep_probability(1) == 1.0
    assert response.draw(np.zeros(3, np.int64), 1, lambda _: b"").tolist() == [0, 0, 0]
    assert response.debias(np.ones(2), 1).tolist() == [1.0, 1.0]


def test_entropy_is_used_up_anew_for_every_label() -> None:
    asked = []

    def randomness(n_bytes: int) -> bytes:
        asked.append(n_bytes)
        return bytes(n_bytes)

    RandomizedResponse(1.0).draw(np.zeros(10, np.int64), 3, randomness)
    assert asked == [160]


@given(EPSILONS, st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6).filter(lambda s: sum(s) > 0))
def test_the_correction_undoes_the_expected_effect_of_the_noise(
    epsilon: float, weights: list[float]
) -> None:
    shares = np.array(weights) / sum(weights)
    response, n_classes = RandomizedResponse(epsilon), len(shares)
    keep = response.keep_probability(n_classes)
    expected_noisy = shares * keep + (1.0 - shares) * (1.0 - keep) / (n_classes - 1)
    tolerance = 1e-14 / min(epsilon, 1.0)
    assert np.allclose(response.debias(expected_noisy, n_classes), shares, atol=tolerance)


@pytest.mark.parametrize("epsilon", [0, -1.0, 1e-7, float("nan"), float("inf"), True, "2", None])
def test_an_epsilon_that_is_no_privacy_or_no_number_is_refused(epsilon: Any) -> None:
    with pytest.raises(ConfigurationError, match="epsilon must be a positive number"):
        RandomizedResponse(epsilon).check()


@pytest.mark.parametrize("epsilon", [1e-6, 1, 2.0, np.float32(0.5)])
def test_a_usable_epsilon_passes(epsilon: Any) -> None:
    RandomizedResponse(epsilon).check()
