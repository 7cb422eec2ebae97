"""(epsilon, delta) of many discrete Laplace queries by privacy loss distributions.

The tighter number beside the plain sum, from the optional package `dp-accounting`.
"""

from dataclasses import dataclass

DELTA = 1e-6
# A sum of targets moves by up to 2^30 units; counted in this many steps it can only look worse.
_REGRESSION_STEPS = 16
_MAX_QUERIES = 500_000  # some seconds; the sum of so many says enough
_NO_GAIN = 50.0  # a query of such an epsilon tells nearly all: nothing is below the sum


@dataclass(frozen=True, slots=True)
class ApproximateEpsilon:
    """Epsilon at a small delta; without a number, `note` says why."""

    epsilon: float | None
    delta: float = DELTA
    note: str = ""

    def __str__(self) -> str:
        if self.epsilon is None:
            return f"at delta = {self.delta:g}: not computed, because {self.note}"
        return f"at delta = {self.delta:g}: {self.epsilon:.6g}"


def compose_laplace(
    epsilon_query: float, n_queries: int | None, *, is_regression: bool = False
) -> ApproximateEpsilon:
    """Epsilon at `DELTA` of as many queries; never more than the plain sum.

    A changed label moves two counts by one each, so a class query is two draws of half its epsilon,
    each of which tells either that or its opposite: the steps of the grid below. A changed target
    moves one sum.
    """
    if n_queries is None:
        return ApproximateEpsilon(None, note="the number of queries is not limited")
    pure = epsilon_query * n_queries
    if n_queries == 0 or epsilon_query > _NO_GAIN:
        return ApproximateEpsilon(pure)
    if n_queries > _MAX_QUERIES:
        return ApproximateEpsilon(None, note=f"there are more than {_MAX_QUERIES:,} queries")
    try:
        # optional, and slow to import
        from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415
    except ImportError:
        return ApproximateEpsilon(None, note="dp-accounting is not installed (extra 'privacy')")
    draws_per_query, steps = (1, _REGRESSION_STEPS) if is_regression else (2, 1)
    step = epsilon_query / (draws_per_query * steps)
    loss = privacy_loss_distribution.from_discrete_laplace_mechanism(
        step, sensitivity=steps, value_discretization_interval=step, use_connect_dots=True
    )
    composed = float(loss.self_compose(draws_per_query * n_queries).get_epsilon_for_delta(DELTA))
    return ApproximateEpsilon(min(composed, pure))
