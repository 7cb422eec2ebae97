"""Which graphs hold together, against taking out every set of parties in turn."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.masking.connectivity import stays_connected

Peers = Mapping[str, Sequence[str]]


def is_connected(peers: Peers, removed: Collection[str]) -> bool:
    """Whether every party left is reached from the first."""
    left = [party for party in peers if party not in removed]
    reached = set(left[:1])
    while True:
        more = {
            party
            for party in left
            if any((other in peers[party] or party in peers[other]) for other in reached)
        }
        if more <= reached:
            return reached == set(left)
        reached |= more


def stays_connected_by_trying(peers: Peers, n_removed: int) -> bool:
    return all(is_connected(peers, removed) for removed in combinations(peers, n_removed))


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = [f"party {i}" for i in range(draw(st.integers(1, 8)))]
    pairs = [(one, other) for one in names for other in names if one != other]
    rng = draw(st.randoms(use_true_random=False))
    density = draw(st.sampled_from([0.15, 0.3, 0.5, 0.8]))
    arrows = [pair for pair in pairs if rng.random() < density]
    return {name: tuple(other for one, other in arrows if one == name) for name in names}


@settings(max_examples=300)
@given(graphs(), st.integers(0, 6))
def test_a_graph_is_judged_as_by_trying_every_removal(
    peers: dict[str, tuple[str, ...]], n_removed: int
) -> None:
    n_removed = min(n_removed, len(peers))
    assert stays_connected(peers, n_removed) == stays_connected_by_trying(peers, n_removed)


def ring(n_parties: int, n_ahead: int) -> dict[str, tuple[str, ...]]:
    return {
        f"{i}": tuple(f"{(i + step) % n_parties}" for step in range(1, n_ahead + 1))
        for i in range(n_parties)
    }


def test_a_ring_survives_two_removals_less_than_its_neighbours() -> None:
    """Every party of the ring has 2 n_ahead neighbours; taking out all of them cuts it off."""
    for n_ahead in (1, 2, 3, 5):
        peers = ring(40, n_ahead)
        assert stays_connected(peers, 2 * n_ahead - 1)
        assert not stays_connected(peers, 2 * n_ahead)


def test_two_rings_joined_by_one_party_fall_apart_without_it() -> None:
    peers = {
        "a": ("b", "joint"),
        "b": ("a", "joint"),
        "c": ("d", "joint"),
        "d": ("c", "joint"),
        "joint": ("a", "c"),
    }
    assert stays_connected(peers, 0)
    assert not stays_connected(peers, 1)


def test_a_first_path_that_blocks_two_others_is_undone() -> None:
    """From 0 to 1 the search first goes by 3 and 2 or 4, and so cuts off 5."""
    peers = {"0": ("3", "5"), "1": ("2", "4"), "2": ("3", "5"), "3": ("4", "5"), "4": (), "5": ()}
    assert stays_connected(peers, 1)
    assert stays_connected_by_trying(peers, 1)


def test_a_complete_graph_never_falls_apart() -> None:
    peers = ring(9, 8)
    assert all(stays_connected(peers, n_removed) for n_removed in range(10))
