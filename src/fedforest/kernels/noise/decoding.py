"""From noisy sums to likely counts of classes, one query after the other, in one pass.

Counts leave as whole numbers of small units, `unit` of them to a row, with the rows behind them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.jit import borrowing, kernel
from fedforest.kernels.noise.lasso import project_onto_total, solve_apart, solve_lasso


class Decoder(NamedTuple):
    """The code that rows answered in, and its noise."""

    members: NDArray[np.int64]  # (classes, hashes): the bits that a class sets
    gram: NDArray[np.float64]  # (classes, classes): how many bits two classes share
    share_bits: bool  # whether any two do
    rate_if_clear: float  # of ones where the bit of the code word is not set
    scale: float  # by how much a one too many raises the number of rows with the bit
    penalty: float  # of the Lasso for one row; it grows as the root of rows
    tolerance: float  # of the Lasso


@borrowing
def project_sums(sums, query, decoder, slopes):
    """Unbiased numbers of rows by bit, added up over the bits of each class, less the penalty."""
    members = decoder.members
    rows = np.float64(sums[query, sums.shape[1] - 1])
    expected, penalty = decoder.rate_if_clear * rows, decoder.penalty * np.sqrt(rows)
    for c in range(members.shape[0]):
        slope = -penalty
        for h in range(members.shape[1]):
            slope += (np.float64(sums[query, members[c, h]]) - expected) * decoder.scale
        slopes[c] = slope


@borrowing
def write_counts(counts, rows, unit, query, fixed):
    """Round counts to units; where there are rows, there is weight."""
    n_classes, total = counts.shape[0], np.int64(0)
    for c in range(n_classes):
        fixed[query, c] = np.int64(np.rint(counts[c] * unit))
        total += fixed[query, c]
    if total == 0 and rows > 0:
        for c in range(n_classes):
            fixed[query, c] = 1
    fixed[query, n_classes] = rows


@kernel
def decode_sums(sums, decoder, unit, fixed, first, last):
    """Counts of the queries first..last from sums (queries, bits + 1) of noisy responses, and rows.

    A non-negative Lasso finds counts that explain the sums; then they are made to add up.
    """
    n_classes = decoder.gram.shape[0]
    counts, slopes = np.empty(n_classes), np.empty(n_classes)
    for query in range(first, last):
        rows = sums[query, sums.shape[1] - 1]
        project_sums(sums, query, decoder, slopes)
        if decoder.share_bits:
            solve_lasso(decoder.gram, slopes, decoder.tolerance, counts)
        else:
            solve_apart(decoder.gram[0, 0], slopes, counts)
        project_onto_total(counts, np.float64(rows), slopes)
        write_counts(counts, rows, unit, query, fixed)


@kernel
def mend_sums(sums, unit, fixed, first, last):
    """Counts of the queries first..last from noisy counts (queries, classes + 1), and rows."""
    n_classes = sums.shape[1] - 1
    counts, left = np.empty(n_classes), np.empty(n_classes)
    for query in range(first, last):
        for c in range(n_classes):
            counts[c] = np.float64(sums[query, c])
        project_onto_total(counts, np.float64(sums[query, n_classes]), left)
        write_counts(counts, sums[query, n_classes], unit, query, fixed)
