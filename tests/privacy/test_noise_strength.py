"""Noise beside counts: measured on noisy sums, and told before a training."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedforest
from fedforest import GlobalDP, HorizontalExtraTreesClassifier, LocalDP, NoiseExceedsSignalWarning
from fedforest.kernels.noise.chacha import KEY_BYTES
from fedforest.privacy.global_dp import add_noise
from fedforest.privacy.local_dp import permanent_responses, respond_instantly
from fedforest.privacy.noise_strength import (
    NoisyGrowth,
    describe_excess,
    deviation_of_noise,
    noise_to_count,
)
from fedforest.privacy.queries import Queries

GROWTH = NoisyGrowth(4000, 2, 2, 1, Queries(candidates=5, levels=4, trees=10))


def test_sides_are_halved_from_level_to_level_and_never_below_a_leaf() -> None:
    assert [GROWTH.rows_beside(level) for level in (1, 2, 3)] == [2000, 1000, 500]
    assert replace(GROWTH, min_rows_leaf=700).rows_beside(3) == 700
    assert replace(GROWTH, queries=Queries(5, None, 10)).n_levels == 12
    assert replace(GROWTH, min_rows_leaf=1000).n_levels == 2


def test_the_deviation_of_global_noise_is_that_of_sums_of_noisy_counts() -> None:
    """400 sums of two parties: the standard deviation of their deviation is 5 %."""
    noise = GlobalDP(epsilon=20.0)
    epsilon = noise.resolve(GROWTH.queries)
    rng = np.random.default_rng(3)
    exact = np.full((400, 2), 1000)
    summed = sum(add_noise(exact, epsilon, 2, rng.bytes(KEY_BYTES)) for _ in range(2)) - 2 * exact
    assert np.std(summed) == pytest.approx(deviation_of_noise(noise, GROWTH, 1), rel=0.2)


def test_the_deviation_of_local_noise_is_that_of_decoded_bits() -> None:
    noise = LocalDP(epsilon=2.0)
    code = noise.resolve(2)
    rng = np.random.default_rng(4)
    n_rows = int(GROWTH.rows_beside(1))
    decoded = []
    for number in range(200):
        labels = np.zeros(n_rows, np.uint16)
        ids = np.arange(n_rows, dtype=np.uint64) + np.uint64(number * n_rows)
        answers = permanent_responses(code, labels, ids, bytes(KEY_BYTES))
        ones = [int((answers >> np.uint64(bit) & np.uint64(1)).sum()) for bit in range(code.bits)]
        sums = np.array([[*ones, n_rows]], np.int64)
        respond_instantly(code, sums, rng.bytes(KEY_BYTES))
        of_other = [bit for bit in range(code.bits) if code.matrix[bit, 1]]
        contrast = code.keep * (code.p - code.q)
        decoded.append((sums[0, of_other[0]] - code.rate_if_clear * n_rows) / contrast)
    assert np.std(decoded) == pytest.approx(deviation_of_noise(noise, GROWTH, 1), rel=0.25)


@pytest.mark.parametrize("noise", [LocalDP(epsilon=1.0), GlobalDP(epsilon=100.0)])
def test_noise_grows_beside_counts_from_level_to_level(noise: Any) -> None:
    ratios = [noise_to_count(noise, GROWTH, level) for level in (1, 2, 3, 4)]
    assert ratios == sorted(ratios)
    assert ratios[0] < ratios[-1]


@pytest.mark.parametrize(
    ("noise", "growth"),
    [
        (GlobalDP(epsilon=1.0), GROWTH),
        (GlobalDP(epsilon_query=0.001), GROWTH),
        (LocalDP(epsilon=0.5), replace(GROWTH, queries=Queries(5, None, 10))),
        (GlobalDP(epsilon=1.0, target_bounds=(0.0, 1.0)), replace(GROWTH, n_classes=0)),
    ],
)
def test_every_advice_helps(noise: Any, growth: NoisyGrowth) -> None:
    text = describe_excess(noise, growth)
    assert text is not None
    assert repr(noise) in text
    advised = re.findall(r"(\w+)=([\d.]+)(?=[;.])", text.split("helps: ")[1])
    assert advised
    for name, value in advised:
        changed, better = noise, growth
        if name == "max_depth":
            better = replace(growth, queries=replace(growth.queries, levels=int(value)))
        elif name == "n_estimators":
            better = replace(growth, queries=replace(growth.queries, trees=int(value)))
        elif name == "min_samples_leaf":
            better = replace(growth, min_rows_leaf=int(value))
        else:
            changed = replace(noise, **{name: float(value.rstrip("."))})
        assert describe_excess(changed, better) is None, (name, value)


def test_little_noise_is_no_warning() -> None:
    assert describe_excess(LocalDP(epsilon=6.0), GROWTH) is None
    assert describe_excess(GlobalDP(epsilon=200.0), GROWTH) is None


def table(n_rows: int = 400) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    return X, (X[:, 0] > 0).astype(int), np.arange(n_rows) % 2


@pytest.mark.filterwarnings("error::fedforest.errors.NoiseExceedsSignalWarning")
def test_fit_warns_before_it_trains_and_not_without_a_reason() -> None:
    X, y, owner = table()
    drowned = HorizontalExtraTreesClassifier(3, privacy=GlobalDP(epsilon=0.5), max_depth=4)
    with pytest.warns(NoiseExceedsSignalWarning, match="One of these helps: ") as warned:
        drowned.fit(X, y, party=owner)
    assert warned[0].filename == __file__
    with pytest.raises(NoiseExceedsSignalWarning):  # an error, as a user may wish
        drowned.fit(X, y, party=owner)
    clear = HorizontalExtraTreesClassifier(3, privacy=LocalDP(epsilon=6.0), max_depth=3)
    clear.fit(X, y, party=owner)
    assert issubclass(fedforest.NoiseExceedsSignalWarning, UserWarning)
