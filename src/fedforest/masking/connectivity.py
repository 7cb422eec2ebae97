"""Whether a graph of parties holds together when some of them are taken out.

By Menger's theorem no n parties separate two others that are joined by more than n paths without
a common party. Few pairs need looking at (Even 1975, "An algorithm for determining whether the
connectivity of a graph is at least k"). Sets of parties are the bits of an integer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise


def stays_connected(peers: Mapping[str, Sequence[str]], n_removed: int) -> bool:
    """Whether the others stay joined, over peers in either direction, without any `n_removed`."""
    neighbours = _join(peers)
    n_paths = n_removed + 1
    if len(neighbours) <= n_paths:
        return True  # at most one party is left
    return _pairs_hold(neighbours, n_paths) and _others_hold(neighbours, n_paths)


def _pairs_hold(neighbours: Sequence[int], n_paths: int) -> bool:
    """Return whether no two of the first `n_paths` parties can be separated."""
    n_parties, arcs = len(neighbours), _split(neighbours)
    for first in range(n_paths):
        for second in range(first):
            if neighbours[first] >> second & 1:
                continue  # nobody stands between neighbours
            between = neighbours[first] & neighbours[second]
            if not _has_paths(arcs, n_parties + first, second, between, n_paths):
                return False
    return True


def _others_hold(neighbours: Sequence[int], n_paths: int) -> bool:
    """Return whether each party after the first `n_paths` has paths to as many before it.

    Whichever one fewer are taken out, one of its paths is left, to a party that is still joined
    to all others before it.
    """
    n_parties, arcs = len(neighbours), _split(neighbours)
    before, goal = (1 << n_paths) - 1, 2 * n_parties
    arcs.append(0)  # the goal, one more point behind all parties before
    for party in range(n_paths):
        arcs[n_parties + party] |= 1 << goal
    waiting = set(range(n_paths, n_parties))
    while waiting:  # whoever has most neighbours before it comes next: it needs least looking
        _, party = max(((neighbours[one] & before).bit_count(), one) for one in waiting)
        beside = neighbours[party] & before
        if not _has_paths(arcs, n_parties + party, goal, beside, n_paths):
            return False
        waiting.remove(party)
        before |= 1 << party
        arcs[n_parties + party] |= 1 << goal
    return True


def _join(peers: Mapping[str, Sequence[str]]) -> list[int]:
    """Return the neighbours of each party, chosen by it or having chosen it."""
    number = {party: i for i, party in enumerate(peers)}
    neighbours = [0] * len(number)
    for party, chosen in peers.items():
        for peer in chosen:
            neighbours[number[party]] |= 1 << number[peer]
            neighbours[number[peer]] |= 1 << number[party]
    return neighbours


def _split(neighbours: Sequence[int]) -> list[int]:
    """Arcs of a graph in which every party is an entrance i with one arc to an exit n + i.

    A path uses up its arcs, so paths that share no arc share no party either.
    """
    n_parties = len(neighbours)
    entrances = [1 << n_parties + i for i in range(n_parties)]
    return [*entrances, *neighbours]


def _has_paths(arcs: Sequence[int], source: int, target: int, between: int, n_paths: int) -> bool:
    """Return whether so many paths without a common arc lead from source to target.

    The parties `between`, next to both, are a path each. Every path turns its arcs round, so that
    a later one can undo them (Ford & Fulkerson).
    """
    n_missing = n_paths - between.bit_count()
    if n_missing <= 0:
        return True
    left, n_parties = list(arcs), len(arcs) // 2
    for party in _members(between):
        _turn_round(left, [target, n_parties + party, party, source])
    for _ in range(n_missing):
        path = _find_path(left, source, target)
        if not path:
            return False
        _turn_round(left, path)
    return True


def _turn_round(arcs: list[int], path: Sequence[int]) -> None:
    """Turn the arcs of a path, given from its end to its beginning."""
    for point, before in pairwise(path):
        arcs[before] ^= 1 << point
        arcs[point] |= 1 << before


def _find_path(arcs: Sequence[int], source: int, target: int) -> list[int]:
    """Return a shortest path, from its end to its beginning; empty if there is none."""
    came_from: dict[int, int] = {}
    unseen = ~(1 << source)
    queue = [source]
    for point in queue:
        new = arcs[point] & unseen
        unseen &= ~new
        for reached in _members(new):
            came_from[reached] = point
            queue.append(reached)
        if target in came_from:
            path = [target]
            while path[-1] != source:
                path.append(came_from[path[-1]])
            return path
    return []


def _members(parties: int) -> Iterator[int]:
    while parties:
        lowest = parties & -parties
        yield lowest.bit_length() - 1
        parties ^= lowest
