"""Gains of several parties at the same nodes: which are believed, and whose is the best."""

import numpy as np

from fedforest.kernels.jit import kernel


@kernel
def are_gains(scores, largest):
    """Whether every score is smaller than `largest` in size, or minus infinity; NaN is neither."""
    plausible = True
    for k in range(scores.shape[0]):
        plausible &= (np.abs(scores[k]) < largest) | (scores[k] == -np.inf)
    return plausible


@kernel
def outbid(scores, number, best, owner):
    """Where bidder `number` scores more than the best so far, it becomes the owner.

    Without a branch: who wins a node is not foreseen.
    """
    for k in range(scores.shape[0]):
        wins = scores[k] > best[k]
        best[k] = scores[k] if wins else best[k]
        owner[k] = number if wins else owner[k]
