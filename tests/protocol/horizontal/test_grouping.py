"""Many segments at once: each is asked, and answers, exactly as if it were asked alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.aggregation.base import Answers
from fedforest.protocol.aggregation.messages import Count, Part
from fedforest.protocol.horizontal.grouping import (
    Grouping,
    begin_at,
    count_in,
    find_ranges,
    put,
    spread,
    take,
    within,
)
from fedforest.protocol.horizontal.messages import AgreeOnTable, BeginTrees, CutsQuestion
from fedforest.protocol.horizontal.order import Participation
from fedforest.protocol.horizontal.party.training import HorizontalParty
from tests.protocol.horizontal.asking_one import AskedParty, ask_cuts
from tests.protocol.horizontal.federations import Shares, train_openly

Nodes = list[tuple[int, int]]  # (group, number of pairs), in the order of groups
NODES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12)


def lay_out(nodes: Nodes) -> tuple[dict[int, tuple[int, int]], NDArray[np.int64]]:
    """(from where to where the nodes of each group lie, where the pairs of each node begin)."""
    groups = [group for group, _ in nodes]
    ranges = {k: (groups.index(k), groups.index(k) + groups.count(k)) for k in groups}
    return ranges, np.concatenate([[0], np.cumsum([size for _, size in nodes], dtype=np.int64)])


@given(NODES.map(sorted), st.data())
def test_groups_have_their_own_nodes_and_pairs(nodes: Nodes, data: st.DataObject) -> None:
    nodes_of, node_start = lay_out(nodes)
    own = sorted({group for group, _ in nodes})
    numbers = sorted(data.draw(st.sets(st.sampled_from(own), min_size=1)))
    grouping = Grouping.of(numbers, nodes_of, node_start)
    for number, (first, last) in zip(numbers, grouping.nodes, strict=True):
        assert [k for k, (group, _) in enumerate(nodes) if group == number] == [*range(first, last)]
    for (first, last), pairs in zip(grouping.nodes, grouping.pairs, strict=True):
        assert pairs == (node_start[first], node_start[last])
    assert grouping.is_all == (numbers == own)
    assert sum(grouping.n_nodes) == sum(group in numbers for group, _ in nodes)
    told = np.arange(1, 1 + sum(grouping.n_pairs))
    spread_out = spread(told, grouping.pairs, int(node_start[-1]))
    assert spread_out[spread_out > 0].tolist() == told.tolist()
    assert sum(spread_out[slice(*pairs)].sum() for pairs in grouping.pairs) == told.sum()


def test_groups_that_are_not_there_or_out_of_order_are_refused() -> None:
    nodes_of, node_start = lay_out([(0, 1), (2, 1), (2, 2)])
    with pytest.raises(ProtocolError, match="trees that this party does not grow"):
        Grouping.of([0, 1], nodes_of, node_start)
    with pytest.raises(ProtocolError, match="not in the order of their trees"):
        Grouping.of([2, 0], nodes_of, node_start)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
def test_what_lies_in_ranges_of_trees_is_taken_out_and_put_back(
    held: list[bool], data: st.DataObject
) -> None:
    trees = find_ranges(np.array(held))
    assert [any(first <= k < last for first, last in trees) for k in range(len(held))] == held
    assert len(trees) == len([k for k, own in enumerate(held) if own and not (k and held[k - 1])])
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=len(held), max_size=len(held)))
    tree_of_node = np.repeat(np.arange(len(held), dtype=np.int32), sizes)
    ranges = within(trees, begin_at(tree_of_node, len(held)))
    own = [k for k, tree in enumerate(tree_of_node) if held[tree]]
    assert count_in(ranges) == len(own)
    if trees:
        assert take(np.arange(len(tree_of_node)), ranges).tolist() == own
    whole = np.full(len(tree_of_node), -1)
    put(np.arange(len(own)), ranges, whole)
    assert whole[own].tolist() == [*range(len(own))]
    assert (np.delete(whole, own) == -1).all()


class OneByOne(HorizontalParty):
    """Answers every question of a request alone."""

    def _answer(self, agreed: AgreeOnTable, questions: Sequence[CutsQuestion]) -> Answers:
        return Answers.of([self._answer_alone(agreed, one) for one in questions])


def make_table(rng: np.random.Generator) -> dict[str, Sequence[object]]:
    """Numbers, gaps and categories."""
    number, gaps = rng.normal(size=(2, 90))
    gaps[rng.random(90) < 0.2] = np.nan
    return {"number": number, "gaps": gaps, "letter": rng.choice(list("uvwxyz"), 90)}


@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_questions_of_a_request_are_answered_together_as_they_are_alone(kind: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90) if kind == "classes" else rng.normal(size=90)
    shares = Shares(make_table(rng), y, np.arange(90) % 5)
    settings: dict[str, Any] = {"participation": Participation(0.5, "tree", 1), "n_estimators": 8}
    together = train_openly(shares, **settings)
    alone = train_openly(shares, party_options={"make_party": OneByOne}, **settings)
    assert together.recorder.replies == alone.recorder.replies
    assert together.trained.model == alone.trained.model


def test_segments_whose_trees_do_not_follow_each_other_are_refused() -> None:
    rng = np.random.default_rng(0)
    asked = AskedParty(rng.normal(size=(40, 2)), rng.integers(0, 2, 40))
    segments = memoryview(np.array([0, 1, 0], "<u2").tobytes())
    start = BeginTrees(segments, bootstrap=False, n_draws=1, n_rows=1, left=())
    with pytest.raises(ProtocolError, match="do not follow each other"):
        asked.propose([[0], [1], [0]], start=start)


def test_a_segment_that_is_asked_twice_in_one_request_is_refused() -> None:
    rng = np.random.default_rng(0)
    asked = AskedParty(rng.normal(size=(40, 2)), rng.integers(0, 2, 40))
    segments = memoryview(np.array([0, 1], "<u2").tobytes())
    asked.propose(
        [[0], [1]], start=BeginTrees(segments, bootstrap=False, n_draws=1, n_rows=1, left=())
    )
    parts = [Part((), ask_cuts([cut], [False])) for cut in (0.0, 0.5)]
    with pytest.raises(ProtocolError, match="asked for twice"):
        asked.tell(Count(asked.step + 1, tuple(parts)))
    assert len(asked.count([0.0], [False])) == 2
