"""A coordinator that wants the numbers of few parties out of all sums that it can get.

It divides parties into blocks as it likes, begins and restarts trees, and asks in any order, over
any parties; real parties answer or refuse. All answers count as sums over the same rows, the worst
case. The oracle asks of the indicators of all sums that came out whether some combination of them
with rational weights is about fewer parties with rows than must take part in every sum.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fedforest.errors import FederationError
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.order import Scope
from tests.hostile.steered_federation import SteeredFederation, draw_tables
from tests.protocol.horizontal.asking_one import split_all

NAMES = "abcdef"
Sums = Collection[frozenset[str]]
Played = list[tuple[Any, ...]]  # what to do, with which parties, and how

DIVISIONS = ("ab cd ef", "abc def", "ab cdef", "abcdef", "ab cde f", "a bc def", "ac bd ef")
# parties one by one, or by the numbers of their blocks
subsets = st.one_of(
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map("".join),
    st.lists(st.sampled_from("012"), min_size=1, unique=True).map("".join),
    st.lists(st.sampled_from("012"), min_size=1, unique=True).map("".join),
)
segments = st.integers(0, 1)
blocks_left = st.sampled_from([*["as before"] * 5, "one more", "none", "unknown"])
actions = st.one_of(
    st.tuples(st.just("tables"), subsets),
    st.tuples(st.just("start"), subsets, segments, blocks_left),
    st.tuples(st.just("tree"), subsets, segments, blocks_left),
    st.tuples(st.just("count"), subsets, segments),
    st.tuples(st.just("count again"), subsets, segments),
    st.tuples(st.just("move"), subsets),
)


def rank(rows: Sequence[Sequence[int]]) -> int:
    """Of a matrix of rational numbers, by elimination."""
    matrix = [[Fraction(value) for value in row] for row in rows]
    n = 0
    for column in range(len(matrix[0]) if matrix else 0):
        pivot = next((k for k in range(n, len(matrix)) if matrix[k][column]), None)
        if pivot is None:
            continue
        matrix[n], matrix[pivot] = matrix[pivot], matrix[n]
        for k in range(n + 1, len(matrix)):
            factor = matrix[k][column] / matrix[n][column]
            matrix[k] = [a - factor * b for a, b in zip(matrix[k], matrix[n], strict=True)]
        n += 1
    return n


def find_isolated(sums: Sums, with_rows: Collection[str], least: int) -> str | None:
    """Return fewer parties than `least` that some combination of sums is about, or None."""
    full = [[name in together for name in NAMES] for together in sums]
    for few in combinations(sorted(with_rows), least - 1):
        others = [[name in together for name in with_rows if name not in few] for together in sums]
        without_rows = [[name in together for name in with_rows] for together in sums]
        if rank(without_rows) > rank(others):  # a combination is nothing but for these few
            return "".join(few)
    assert rank(full) >= rank([[name in together for name in with_rows] for together in sums])
    return None


@pytest.mark.parametrize(
    ("sums", "least", "isolated"),
    [
        (["abcd", "abc"], 2, "d"),
        (["abcde", "bc", "de"], 2, "a"),
        (["abcd", "ab"], 2, None),
        (["abcd", "ab"], 3, "ab"),
        (["abc", "bcd", "cda", "dab"], 2, "a"),
        (["abcdef", "abc"], 3, None),
        ([], 2, None),
    ],
)
def test_the_oracle_knows_which_sums_isolate(
    sums: list[str], least: int, isolated: str | None
) -> None:
    assert find_isolated([frozenset(together) for together in sums], NAMES, least) == isolated


def name_parties(chosen: str, blocks: Sequence[str]) -> str:
    """Spell out numbers of blocks."""
    if not chosen.isdigit():
        return chosen
    return "".join(blocks[int(number) % len(blocks)] for number in dict.fromkeys(chosen))


def play(federation: SteeredFederation, kind: str, parties: str, *more: Any) -> bool:
    """Do one thing; return whether a sum over these parties came out of it."""
    if kind == "tables":
        federation.count_tables(parties)
    elif kind == "move":
        federation.move(parties, split_all([0], [0.0]), 2)
    elif kind in {"start", "tree"}:
        left = {"none": (), "unknown": (7,)}.get(more[1], federation.left)
        left = (*left, len(left)) if more[1] == "one more" else left
        federation.start_one(parties, segment=more[0], left=left)
        federation.left = left
        if kind == "tree":
            federation.count(parties, segment=more[0])
    else:
        federation.step -= kind == "count again"
        federation.count(parties, segment=more[0])
    return kind not in {"move", "start"}


def learn(federation: SteeredFederation, blocks: Sequence[str], played: Played) -> Sums:
    """Return the sums that the coordinator got."""
    sums = set()
    for kind, chosen, *more in played:
        parties = name_parties(chosen, blocks)
        with suppress(FederationError):
            if play(federation, kind, parties, *more):
                sums.add(frozenset(parties))
    return sums


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([Masked(), Masked(1), Ring(), Shamir(2)]),
    st.sampled_from(DIVISIONS).map(str.split),
    st.sampled_from(["tree", "tree", "run"]),
    st.sampled_from([2, 2, 3]),
    st.sampled_from(["", "", "", "d", "cf"]),
    st.sampled_from([True, True, False]),
    st.lists(actions, min_size=3, max_size=16),
)
def test_no_combination_of_sums_is_about_fewer_parties_than_must_take_part(
    plug: Plug,
    blocks: list[str],
    scope: Scope,
    least: int,
    empty: str,
    is_told: bool,
    played: Played,
) -> None:
    tables = draw_tables(NAMES, 8)
    tables |= {name: (np.zeros((0, 2)), np.zeros(0, np.int64)) for name in empty}
    options = {"without_rows": tuple(empty) if is_told else (), "n_trees": 40}
    try:
        federation = SteeredFederation(
            plug, blocks, tables=tables, scope=scope, least=least, agreed=options
        )
    except FederationError:
        event("blocks are refused")
        return
    sums = learn(federation, blocks, played)
    event(f"{len(sums)} sums")
    assert find_isolated(sums, set(NAMES) - set(empty), least) is None


def test_the_coordinator_above_does_get_several_sums() -> None:
    """Of blocks, of which it may learn all."""
    played: Played = [("tables", "abcdef")]
    for parties, left in (("abcd", "as before"), ("cdef", "as before"), ("cd", "one more")):
        played += [("tree", parties, 0, left), ("count", "abc", 0), ("tree", "abc", 1, left)]
    blocks = ["ab", "cd", "ef"]
    sums = learn(SteeredFederation(Masked(), blocks), blocks, played)
    assert sums == set(map(frozenset, ("abcdef", "abcd", "cdef", "cd")))
