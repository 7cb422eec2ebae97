"""Gains of several parties at the same nodes: which are believed, whose is the best, who splits."""

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
    """Make bidder `number` the owner where it scores more than the best so far.

    No branch: the processor cannot predict who wins a node.
    """
    for k in range(scores.shape[0]):
        wins = scores[k] > best[k]
        best[k] = scores[k] if wins else best[k]
        owner[k] = number if wins else owner[k]


@kernel
def share_out(owner, is_split, n_owners):
    """Divide the split nodes among their owners: (nodes, first, flags, places, owners).

    Owner p splits nodes[first[p] : first[p + 1]]; bit k of flags[p] says whether node k is one of
    them. places[k] is the place of split node k among all split nodes, and of any other that of the
    next; `owners` are theirs in that order. `owner` becomes -1 where a node is not split.

    Nodes that are not split belong to an extra owner behind the last: a branch on the owner would
    be mispredicted.
    """
    n_nodes = owner.shape[0]
    places, owners = np.empty(n_nodes, np.int64), np.empty(n_nodes + 1, owner.dtype)
    next_of, at = np.zeros(n_owners + 1, np.int64), 0
    for k in range(n_nodes):
        owner[k] = owner[k] if is_split[k] else -1
        places[k], owners[at] = at, owner[k]
        at += is_split[k]
        next_of[owner[k] if is_split[k] else n_owners] += 1
    first, total = np.empty(n_owners + 1, np.int64), 0
    for p in range(n_owners + 1):
        first[p], total = total, total + next_of[p]
        next_of[p] = first[p]
    nodes = np.empty(n_nodes, np.int64)
    flags = np.zeros((n_owners + 1, (n_nodes + 7) >> 3), np.uint8)
    for k in range(n_nodes):
        p = owner[k] if is_split[k] else n_owners
        nodes[next_of[p]] = k
        next_of[p] += 1
        flags[p, k >> 3] |= np.uint8(1 << (k & 7))
    return nodes, first, flags, places, owners[:at]
