"""The score by deviance: as the definition has it, and where logarithms would lose it."""

from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.criteria.poisson import score_deviance, stray
from fedforest.kernels.jit import kernel
from fedforest.kernels.layout import NO_SPLIT


@kernel
def score(a, s, n, m):  # type: ignore[no-untyped-def]
    """What is compiled into kernels."""
    return score_deviance(a, s, n, m)


def define(a: int, s: int, n: int, m: int) -> Decimal:
    """n times the fall of the sum over rows of y ln(y / mean)."""
    with localcontext() as context:
        context.prec = 60

        def part(total: int, weight: int) -> Decimal:
            return Decimal(total) * (Decimal(total) / Decimal(weight)).ln()

        return n * (part(s, a) + part(m - s, n - a) - part(m, n))


@given(st.integers(1, 2**20), st.integers(1, 2**20), st.data())
def test_the_score_is_the_fall_of_the_deviance(a: int, b: int, data: st.DataObject) -> None:
    s, t = (data.draw(st.integers(1, 2**12)) for _ in range(2))
    n, m = a + b, s + t
    expected = define(a, s, n, m)
    found = float(score(float(a), float(s), float(n), float(m)))
    assert found >= 0.0
    assert abs(Decimal(found) - expected) <= max(expected * Decimal(2) ** -40, Decimal(2) ** -40)


@given(st.floats(-1.0, 2.0**20).filter(lambda x: abs(x) > 1e-12))
def test_how_far_a_mean_strays_is_accurate_near_zero_and_far_away(x: float) -> None:
    with localcontext() as context:
        context.prec = 60
        ratio = 1 + Decimal(x)
        expected = (ratio * ratio.ln() if ratio > 0 else Decimal(0)) - Decimal(x)
    assert abs(Decimal(float(stray(x))) - expected) <= expected * Decimal(2) ** -45


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 10**6))
def test_a_side_without_a_target_above_zero_is_not_allowed(a: int, b: int, m: int) -> None:
    for s in (0, m, -1, m + 1):
        assert score(float(a), float(s), float(a + b), float(m)) == NO_SPLIT
