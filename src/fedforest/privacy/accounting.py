"""(epsilon, delta) of many discrete Laplace queries by privacy loss distributions.

The tighter number beside the plain sum, from the optional package `dp-accounting`.
"""

from dataclasses import dataclass

DELTA = 1e-6
# A sum of targets moves by up to 2^30 units; counted in this many steps it can only look worse.
_REGRESSION_STEPS = 64


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
    if n_queries == 0:
        return ApproximateEpsilon(0.0)
    try:
        # optional, and slow to import
        from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415
    except ImportError:
        return ApproximateEpsilon(None, note="dp-accounting is not installed (extra 'privacy')")
    steps = _REGRESSION_STEPS if is_regression else 1
    n_draws = n_queries if is_regression else 2 * n_queries
    step = epsilon_query / (steps if is_regression else 2)
    loss = privacy_loss_distribution.from_discrete_laplace_mechanism(
        step, sensitivity=steps, value_discretization_interval=step, use_connect_dots=True
    )
    composed = float(loss.self_compose(n_draws).get_epsilon_for_delta(DELTA))
    return ApproximateEpsilon(min(composed, epsilon_query * n_queries))
