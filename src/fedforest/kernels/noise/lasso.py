"""A small non-negative Lasso by coordinate descent, and the nearest point with a given sum."""

from fedforest.kernels.jit import borrowing, embedded

_MAX_SWEEPS = 100_000  # codes near dependence need hundreds; this many only stops a bug


@borrowing
def solve_lasso(gram, slopes, tolerance, x):
    """Minimise |y - A x|^2 / 2 + threshold * sum(x) over x >= 0.

    `gram` is A'A; `slopes` are A'y - threshold and become those of the fit at x. It is done when no
    coordinate moves by more than `tolerance` times the largest.
    """
    n_columns = gram.shape[0]
    for i in range(n_columns):
        x[i] = 0.0
    for _ in range(_MAX_SWEEPS):
        largest_move, largest = 0.0, 0.0
        for i in range(n_columns):
            move = max(-x[i], slopes[i] / gram[i, i])
            if move != 0.0:
                x[i] += move
                for j in range(n_columns):
                    slopes[j] -= gram[i, j] * move
            largest_move = max(largest_move, abs(move))
            largest = max(largest, x[i])
        if largest_move <= tolerance * largest:
            break


@borrowing
def solve_apart(square, slopes, x):
    """Solve where columns of A have nothing in common, and each has this square."""
    inverse = 1.0 / square
    for i in range(x.shape[0]):
        x[i] = max(0.0, slopes[i] * inverse)


@embedded
def project_pair(x, total):
    """The nearest pair that is non-negative and adds up to the total."""
    first = min(max(0.0, 0.5 * (x[0] - x[1] + total)), total)
    x[0], x[1] = first, total - first


@borrowing
def project_onto_total(x, total, left):
    """Replace a point by the nearest one that is non-negative and adds up to the total.

    The same amount is taken from every coordinate that stays positive; the others become zero
    (Michelot 1986). That amount only ever grows. `left` is room for those that may still stay.
    """
    n_columns = x.shape[0]
    if n_columns == 2:
        project_pair(x, total)
        return
    for i in range(n_columns):
        left[i] = x[i]
    n_left, n_before, shift = n_columns, 0, 0.0
    while n_left > 0 and n_left != n_before:
        excess, n_before = -total, n_left
        for i in range(n_before):
            excess += left[i]
        shift, n_left = excess / n_before, 0
        for i in range(n_before):
            left[n_left] = left[i]
            n_left += left[i] > shift
    for i in range(n_columns):
        x[i] = max(0.0, x[i] - shift)
