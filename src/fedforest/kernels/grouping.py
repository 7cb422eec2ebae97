"""Nodes of a level by groups of trees, and the cuts of their pairs put back into the level's order.

Levels of small federations have few nodes and many groups: each function here is one call for what
numpy would take a dozen for, and these calls would cost more than the nodes.
"""

import numpy as np

from fedforest.kernels.jit import kernel


@kernel
def group_nodes(group_of_node, place_of_group, n_places, node_start):
    """(nodes, their ends, pairs, their ends), group by group, each in ascending order.

    Groups lie at their place; -1: they are left out.
    """
    node_ends, pair_ends = np.zeros(n_places + 1, np.int64), np.zeros(n_places + 1, np.int64)
    for node in range(group_of_node.shape[0]):
        place = place_of_group[group_of_node[node]]
        if place >= 0:
            node_ends[place + 1] += 1
            pair_ends[place + 1] += node_start[node + 1] - node_start[node]
    for place in range(n_places):
        node_ends[place + 1] += node_ends[place]
        pair_ends[place + 1] += pair_ends[place]
    next_node, next_pair = node_ends[:-1].copy(), pair_ends[:-1].copy()
    nodes, pairs = np.empty(node_ends[-1], np.int64), np.empty(pair_ends[-1], np.int64)
    for node in range(group_of_node.shape[0]):
        place = place_of_group[group_of_node[node]]
        if place >= 0:
            nodes[next_node[place]] = node
            next_node[place] += 1
            for pair in range(node_start[node], node_start[node + 1]):
                pairs[next_pair[place]] = pair
                next_pair[place] += 1
    return nodes, node_ends, pairs, pair_ends


@kernel
def count_before(flags, ends):
    """How many flags before each end are set."""
    counts = np.zeros(ends.shape[0], np.int64)
    n_set, at = 0, 0
    for k in range(ends.shape[0]):
        while at < ends[k]:
            n_set += flags[at]
            at += 1
        counts[k] = n_set
    return counts


@kernel
def place_asked_pairs(threshold, pairs):
    """Of those of `pairs` that have a threshold: their places among all pairs that have one."""
    place = np.empty(threshold.shape[0], np.int64)
    n_asked = 0
    for pair in range(threshold.shape[0]):
        place[pair] = n_asked
        n_asked += not np.isnan(threshold[pair])
    places = np.empty(pairs.shape[0], np.int64)
    n_places = 0
    for i in range(pairs.shape[0]):
        if not np.isnan(threshold[pairs[i]]):
            places[n_places] = place[pairs[i]]
            n_places += 1
    return places[:n_places]
