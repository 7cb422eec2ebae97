"""Epsilons: equal to the worst case found by going through all answers, and printed in full."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.privacy.composition import (
    query_epsilon,
    spend_global,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.local_dp import LocalDP, ResponseCode
from fedforest.privacy.queries import Queries

PROBABILITIES = st.floats(0.05, 0.95)
ASKED = Queries(candidates=3, levels=4, trees=5)


@st.composite
def codes(draw: st.DrawFn) -> ResponseCode:
    bits = draw(st.integers(2, 5))
    hashes = draw(st.integers(1, bits - 1))
    q, p = sorted((draw(st.floats(0.0, 0.45)), draw(st.floats(0.55, 1.0))))
    layers = LocalDP(bits=bits, hashes=hashes, keep=draw(PROBABILITIES), p=p, q=q)
    return layers.resolve(draw(st.integers(1, bits)))


def answer_probability(
    code: ResponseCode, word: int, queries: list[tuple[float, float]], answers: tuple[int, ...]
) -> float:
    """How likely a row of this code word answers like this, query by query, bit by bit.

    `answers` has one integer per query; permanent bits are summed over.
    """
    whole = 1.0
    for bit in range(code.bits):
        stays = (1.0 + code.keep) / 2.0
        total = 0.0
        for permanent in (0, 1):
            here = stays if permanent == (word >> bit & 1) else 1.0 - stays
            for (p, q), answer in zip(queries, answers, strict=True):
                one = p if permanent else q
                here *= one if answer >> bit & 1 else 1.0 - one
            total += here
        whole *= total
    return whole


def worst_ratio(code: ResponseCode, queries: list[tuple[float, float]]) -> float:
    """The largest log-likelihood ratio of any answers between any two classes."""
    worst = 0.0
    for answers in product(range(2**code.bits), repeat=len(queries)):
        likely = [answer_probability(code, word, queries, answers) for word in code.words]
        if max(likely) > 0.0:
            worst = max(worst, math.log(max(likely) / min(likely)))
    return worst


@given(codes())
@settings(max_examples=60)
def test_one_query_tells_exactly_what_the_formula_says(code: ResponseCode) -> None:
    assert worst_ratio(code, [(code.p, code.q)]) == pytest.approx(query_epsilon(code), abs=1e-9)


@given(codes())
@settings(max_examples=60)
def test_the_cap_is_exactly_what_the_permanent_responses_tell(code: ResponseCode) -> None:
    assert worst_ratio(code, [(1.0, 0.0)]) == pytest.approx(code.cap, abs=1e-9)


@given(codes(), PROBABILITIES, PROBABILITIES)
@settings(max_examples=30)
def test_queries_of_one_row_tell_no_more_than_their_sum_nor_than_the_cap(
    code: ResponseCode, one: float, other: float
) -> None:
    if code.bits > 3:  # all pairs of answers would be too many
        code = LocalDP(keep=code.keep, bits=3, p=code.p, q=code.q).resolve(3)
    second = (max(one, other), min(one, other))  # of another training with other p and q
    alone = [worst_ratio(code, [query]) for query in ((code.p, code.q), second)]
    together = worst_ratio(code, [(code.p, code.q), second])
    assert together <= sum(alone) + 1e-9
    assert together <= code.cap + 1e-9


def test_the_formulas_are_those_of_the_design() -> None:
    code = LocalDP(keep=0.9, p=0.9, q=0.1).resolve(2)
    p_1, p_0 = (1.9 * 0.9 + 0.1 * 0.1) / 2, (0.1 * 0.9 + 1.9 * 0.1) / 2
    assert code.distance == 2
    assert query_epsilon(code) == pytest.approx(math.log(p_1 * (1 - p_0) / (p_0 * (1 - p_1))))
    assert code.cap == pytest.approx(2 * math.log(1.9 / 0.1))


def test_a_single_class_tells_nothing() -> None:
    code = LocalDP(keep=0.9).resolve(1)
    assert (query_epsilon(code), code.cap) == (0.0, 0.0)


def test_local_spending_is_the_smaller_of_composition_and_cap() -> None:
    code = LocalDP(keep=0.9, p=0.501, q=0.499).resolve(2)
    few, many = spend_local(code, Queries(1, 1, 2)), spend_local(code, Queries(100, 100, 1000))
    assert few.epsilon == few.epsilon_composed == 2 * few.epsilon_query < few.epsilon_cap
    assert many.epsilon == many.epsilon_cap == code.cap < many.epsilon_composed


def test_an_unlimited_depth_leaves_the_cap_of_local_and_nothing_of_global_privacy() -> None:
    unlimited = Queries(3, None, 5)
    assert (
        spend_local(LocalDP(keep=0.9).resolve(2), unlimited).epsilon
        == LocalDP(keep=0.9).resolve(2).cap
    )
    spending = spend_global(0.1, unlimited)
    assert spending.epsilon == math.inf
    assert spending.approximate is not None
    assert spending.approximate.epsilon is None
    assert "not limited" in spending.approximate.note


def test_every_candidate_level_and_tree_is_charged() -> None:
    assert spend_global(0.5, ASKED).epsilon == 0.5 * 3 * 4 * 5


def test_no_privacy_is_an_infinite_epsilon() -> None:
    for queries in (ASKED, Queries(3, None, 5)):
        spending = spend_nothing_private(queries)
        assert spending.epsilon == spending.as_dict()["label_epsilon"] == math.inf
    assert "epsilon is infinite" in str(spending)


@pytest.mark.parametrize(
    "spending",
    [
        spend_nothing_private(ASKED),
        spend_local(LocalDP(keep=0.9).resolve(3), ASKED),
        spend_local(LocalDP(keep=0.9).resolve(3), Queries(3, None, 5)),
        spend_global(0.25, ASKED),
        spend_global(0.25, ASKED, is_regression=True),
    ],
)
def test_reports_say_what_is_not_protected(spending: Any) -> None:
    text = str(spending)
    for word in (
        *("features", "thresholds", "ranges", "branch sizes", "who takes part", "scores"),
        "which classes each party has",
    ):
        assert word in text
        assert any(word in line for line in spending.as_dict()["not_protected"])


def test_reports_show_every_number() -> None:
    local = spend_local(LocalDP(keep=0.9).resolve(3), ASKED)
    for number in (local.epsilon, local.epsilon_query, local.epsilon_composed, local.epsilon_cap):
        assert f"{number:.6g}" in str(local)
    assert "3 candidates × 4 levels × 5 trees = 60 queries" in str(local)
    noisy = spend_global(0.25, ASKED)
    assert noisy.approximate is not None
    assert f"at delta = 1e-06: {noisy.approximate.epsilon:.6g}" in str(noisy)
    assert noisy.as_dict()["epsilon_approximate"] == noisy.approximate.epsilon
    assert set(noisy.as_dict()) == set(local.as_dict())


def test_a_partys_spending_names_its_memory() -> None:
    code = LocalDP(keep=0.9).resolve(3)
    spending = spend_local(code, ASKED)
    assert spending.memory == ""
    assert spending.under_key(code, b"k" * 32).memory == code.memory(b"k" * 32) != ""


def test_evidence_through_a_noisy_bit_is_sub_additive() -> None:
    # the argument at the top of the module, on a grid
    evidence = np.linspace(0.0, 8.0, 81)
    for keep in (0.1, 0.5, 0.9, 0.99):
        passed = 2 * np.arctanh(keep * np.tanh(evidence / 2))
        both = 2 * np.arctanh(keep * np.tanh((evidence[:, None] + evidence) / 2))
        assert (both <= passed[:, None] + passed + 1e-12).all()
