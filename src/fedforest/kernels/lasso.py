"""Many small non-negative Lasso problems that share one matrix, by coordinate descent."""

import numpy as np

from fedforest.kernels.jit import kernel

_MAX_SWEEPS = 100_000  # codes near dependence need hundreds; this many only stops a bug


@kernel
def solve_lasso(gram, projections, thresholds, tolerance, solutions):
    """Minimise |y - A x|^2 / 2 + threshold * sum(x) over x >= 0, for one y per row.

    `gram` is A'A, `projections` has A'y of each problem. A problem is done when no coordinate moves
    by more than `tolerance` times its largest coordinate.
    """
    n_columns = gram.shape[0]
    slope = np.empty(n_columns)  # of the fit, downwards, at x
    for problem in range(projections.shape[0]):
        x = solutions[problem]
        for i in range(n_columns):
            x[i] = 0.0
            slope[i] = projections[problem, i] - thresholds[problem]
        for _ in range(_MAX_SWEEPS):
            largest_move, largest = 0.0, 0.0
            for i in range(n_columns):
                move = max(-x[i], slope[i] / gram[i, i])
                if move != 0.0:
                    x[i] += move
                    for j in range(n_columns):
                        slope[j] -= gram[i, j] * move
                largest_move = max(largest_move, abs(move))
                largest = max(largest, x[i])
            if largest_move <= tolerance * largest:
                break


@kernel
def project_onto_totals(values, totals):
    """Replace each row by the nearest one that is non-negative and adds up to its total.

    The same amount is taken from every coordinate that stays positive; the others become zero
    (Michelot 1986).
    """
    n_columns = values.shape[1]
    is_positive = np.empty(n_columns, np.bool_)
    for row in range(values.shape[0]):
        x = values[row]
        is_positive[:] = True
        n_positive, excess = n_columns, x.sum() - totals[row]
        while True:
            shift, n_before = excess / n_positive, n_positive
            for i in range(n_columns):
                if is_positive[i] and x[i] <= shift and n_positive > 1:
                    is_positive[i] = False
                    n_positive -= 1
                    excess -= x[i]
            if n_positive == n_before:
                break
        for i in range(n_columns):
            x[i] = max(0.0, x[i] - shift) if is_positive[i] else 0.0
