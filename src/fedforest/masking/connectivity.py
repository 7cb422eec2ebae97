"""Whether a graph of parties holds together when some of them are taken out.

By Menger's theorem no n parties separate two others that are joined by more than n paths without
a common party. Few pairs need looking at (Even 1975, "An algorithm for determining whether the
connectivity of a graph is at least k"). Sets of parties are the bits of an integer.
"""

from collections.abc import Mapping, Sequence


def stays_connected(peers: Mapping[str, Sequence[str]], n_removed: int) -> bool:
    """Whether the others stay joined, over peers in either direction, without any `n_removed`."""
    neighbours = _join(peers)
    n_parties, n_paths = len(neighbours), n_removed + 1
    if n_parties <= n_paths:
        return True  # at most one party is left
    # Any n_removed parties leave one of these n_paths in place. If no two of these can be
    # separated, and no other party from all of them, nobody can be separated from anybody.
    anchors = range(n_paths)
    arcs = _split(neighbours)
    for first in anchors:
        for second in anchors[:first]:
            is_joined = neighbours[first] >> second & 1
            if not is_joined and not _has_paths(arcs, n_parties + first, second, n_paths):
                return False
    goal = 2 * n_parties  # one more point, behind all anchors
    for anchor in anchors:
        arcs[n_parties + anchor] |= 1 << goal
    arcs.append(0)
    others = range(n_paths, n_parties)
    return all(_has_paths(arcs, n_parties + other, goal, n_paths) for other in others)


def _join(peers: Mapping[str, Sequence[str]]) -> list[int]:
    """The neighbours of each party, chosen by it or having chosen it."""
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


def _has_paths(arcs: Sequence[int], source: int, target: int, n_paths: int) -> bool:
    """Whether so many paths without a common arc lead from source to target.

    Each path found turns its arcs round, so that a later one can undo them (Ford & Fulkerson).
    """
    left = list(arcs)
    for _ in range(n_paths):
        came_from = _search(left, source, target)
        if target not in came_from:
            return False
        point = target
        while point != source:
            before = came_from[point]
            left[before] ^= 1 << point
            left[point] |= 1 << before
            point = before
    return True


def _search(arcs: Sequence[int], source: int, target: int) -> dict[int, int]:
    """Breadth first until the target is found: from where each point was reached."""
    came_from: dict[int, int] = {}
    unseen = ~(1 << source)
    queue = [source]
    for point in queue:
        new = arcs[point] & unseen
        unseen &= ~new
        while new:
            lowest = new & -new
            reached = lowest.bit_length() - 1
            came_from[reached] = point
            queue.append(reached)
            new ^= lowest
        if target in came_from:
            break
    return came_from
