"""The coordinator of linear models (the papers' F-LR): a Newton method over parties' directions.

Who learns what. The coordinator sees, per row, the residual, the curvature and every party's part
of the score at every step. The signs of residuals are the classes, and the first residuals of
numbers are the targets, so it learns every label; from a party's parts it can learn the space its
columns span, and a lone column but for its unit. It never sees a coefficient of a column, a
category or a name. It keeps the intercept.

Method. Every step, each party proposes the Newton step of its own coefficients with the others'
held still (block Jacobi); the coordinator minimises the second-order model of the objective over
all combinations of all parties' directions so far, and the label party measures the new scores. So
a step costs two exchanges, one for squared loss, whose measurements follow from the first. One
party needs as many steps as Newton's method; more parties need few more, where conjugate gradients
inside each Newton step need several times as many exchanges, and gradient methods hundreds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, ProtocolError
from fedforest.protocol.asking import Conversation, ask, blame, check
from fedforest.protocol.linear.contract import MOST_HALVINGS
from fedforest.protocol.linear.labels import Fit
from fedforest.protocol.linear.messages import (
    Measure,
    Propose,
    ScoreRows,
    Settle,
    ShareWeights,
    StandardiseColumns,
)
from fedforest.protocol.linear.ranges import calculate, check_numbers, check_size
from fedforest.protocol.linear.subspace import Subspace, SubspaceStep
from fedforest.protocol.payloads import Curvatures, Residuals, to_bytes
from fedforest.tree.table.frames import common_row_count

_ENOUGH_DECREASE = 1e-4  # of what the slope promises (Armijo)
_ROUNDING = 1e-12  # fraction of the objective: smaller differences are rounding
_NOISE = 1e-15  # fraction of targets: smaller deviations are rounding


@dataclass(frozen=True, slots=True)
class LinearOrder:
    """The settings of a training, and its parties.

    Training stops when the remaining gain would change scores by `tol` at most, as the root mean
    square over rows: of log-odds, or of targets in units of their standard deviation.
    """

    parties: tuple[str, ...]
    label_party: str
    penalty: float  # half of it times the squared coefficients is added to the loss
    is_quadratic: bool  # squared loss, not logistic
    max_iter: int
    tol: float
    is_weighted: bool = False


@dataclass(frozen=True, slots=True)
class LinearTrained:
    """The coordinator's part of the model, and figures of the training."""

    intercept: float  # the score of a row whose every standardised term is zero
    holders: tuple[str, ...]  # parties that have columns
    n_iter: int
    has_converged: bool
    columns_per_party: Mapping[str, int]
    n_rows: int


def train(order: LinearOrder) -> Conversation[LinearTrained]:
    """Fit the coefficients of all parties' columns."""
    n_rows, columns = yield from _prepare(order)
    holders = tuple(party for party, n_columns in columns.items() if n_columns)
    space = Subspace(n_rows, order.penalty)
    fit = yield from _measure(order, space.scores())
    with blame(order.label_party):
        goal = _goal(order, fit)
    n_rows_bent = fit.curvatures.sum()
    n_iter, left, bends = 0, np.inf, True
    while left > goal and n_iter < order.max_iter:
        gain = yield from _propose(order, space, (holders, fit), with_curvatures=bends)
        n_iter += 1
        left = np.sqrt(gain / n_rows_bent)
        if left > goal:
            moved = yield from _descend(order, space, fit)
            if moved is None:
                break
            fit, bends = moved, not order.is_quadratic
    yield from ask({party: Settle(_coefficients(space, party)) for party in holders})
    return LinearTrained(space.intercept, holders, n_iter, bool(left <= goal), columns, n_rows)


def predict(holders: tuple[str, ...], intercept: float) -> Conversation[NDArray[np.float64]]:
    """Compute the score of every row of the parties' tables."""
    scored = yield from ask(dict.fromkeys(holders, ScoreRows()))
    n_rows = common_row_count({party: reply.size.n_rows for party, reply in scored.items()})
    scores = np.full(n_rows, intercept)
    for party in holders:  # in party order, so that rounding does not depend on timing
        with blame(party):
            scores += scored[party].scores.read(n_rows)
    return scores


def _prepare(order: LinearOrder) -> Conversation[tuple[int, dict[str, int]]]:
    """Have all parties standardise columns; return the rows, and the columns of each party."""
    weights = None
    if order.is_weighted:
        shared = yield from ask({order.label_party: ShareWeights()})
        weights = shared[order.label_party].weights
    request = StandardiseColumns(order.penalty, weights)
    prepared = yield from ask(dict.fromkeys(order.parties, request))
    sizes = {party: prepared[party].size for party in order.parties}
    columns = {party: size.n_columns for party, size in sizes.items()}
    if not any(columns.values()):
        raise DataError.stating("no party has a column; there is nothing to learn from")
    return common_row_count({party: size.n_rows for party, size in sizes.items()}), columns


def _measure(order: LinearOrder, scores: NDArray[np.float64]) -> Conversation[Fit]:
    """Ask the label party how well scores fit."""
    request = Measure(to_bytes(scores, "<f8"))
    replies = yield from ask({order.label_party: request})
    reply, n_rows = replies[order.label_party], len(scores)
    with blame(order.label_party):
        curvatures = reply.curvatures.read(n_rows)
        fit = Fit(reply.residuals.read(n_rows), curvatures, reply.loss.read())
        check(bool(curvatures.any()), "all curvatures are zero")
        check_size(*fit)
    return fit


def _goal(order: LinearOrder, start: Fit) -> float:
    """Return the remaining gain at which to stop; for squared loss in units of deviation."""
    if not order.is_quadratic:
        return order.tol
    seen = start.curvatures > 0.0
    weights = start.curvatures[seen]
    with calculate():
        targets = -start.residuals[seen] / weights
        mean = np.average(targets, weights=weights)
        deviation = np.sqrt(np.average((targets - mean) ** 2, weights=weights))
        # deviations of constant targets are rounding
        goal = float(max(order.tol * deviation, _NOISE * np.abs(targets).max()))
    check_numbers(goal)
    return goal


def _propose(
    order: LinearOrder,
    space: Subspace,
    about: tuple[tuple[str, ...], Fit],
    *,
    with_curvatures: bool,
) -> Conversation[float]:
    """Add a direction from each party; return twice the expected gain, intercept included."""
    holders, fit = about
    total, bend = fit.residuals.sum(), fit.curvatures.sum()
    with calculate():
        centred = fit.residuals - fit.curvatures * (total / bend)
        gain = total * total / bend
    with blame(order.label_party):
        check_numbers(centred, gain)
    residuals = Residuals.of(centred)
    curvatures = Curvatures.of(fit.curvatures) if with_curvatures else None
    requests = {
        party: Propose(residuals, _coefficients(space, party), curvatures) for party in holders
    }
    proposed = yield from ask(requests)
    space.make_room(holders)
    for party in holders:
        with blame(party):
            scores = proposed[party].scores.read(len(fit.residuals))
            slope, *products = proposed[party].products.read(1 + space.n_products(party))
            check_size(scores, slope, np.array(products))
            check(products[-1] >= 0.0, "the square of a direction is negative")
        space.add(party, scores, np.array(products))
        gain += abs(slope)  # downhill but for rounding
    return float(gain)


def _descend(order: LinearOrder, space: Subspace, fit: Fit) -> Conversation[Fit | None]:
    """Move to the best combination of directions; return None if no step decreases the loss."""
    step = _plan_step(space, fit)
    if order.is_quadratic:
        space.move(step)
        return Fit(fit.residuals + fit.curvatures * step.scores, fit.curvatures, fit.loss)
    start, before = space.scores(), fit.loss + space.penalty_after(step, 0.0)
    length = 1.0
    for _ in range(MOST_HALVINGS):
        moved = yield from _measure(order, start + length * step.scores)
        after = moved.loss + space.penalty_after(step, length)
        if after <= before + _ENOUGH_DECREASE * length * step.slope + _ROUNDING * before:
            space.move(step, length)
            return moved
        length /= 2.0
    return None


def _plan_step(space: Subspace, fit: Fit) -> SubspaceStep:
    """Compute the best combination of directions; refuse numbers that have none."""
    try:
        with calculate():
            step = space.newton_step(fit)
        check_size(*step)
    except ProtocolError:
        raise DataError.stating(
            "what the parties say of their columns does not fit together: no step can be "
            "calculated from it. One of them may be at fault; which one cannot be told"
        ) from None
    return step


def _coefficients(space: Subspace, party: str) -> memoryview:
    return to_bytes(space.coefficients_of(party), "<f8")
