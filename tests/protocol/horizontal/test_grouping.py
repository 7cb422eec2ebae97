"""Many segments at once: each is asked, and answers, exactly as if it were asked alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.aggregation.messages import Count, Part
from fedforest.protocol.horizontal.grouping import Grouping, cut_at
from fedforest.protocol.horizontal.messages import StartTrees
from fedforest.protocol.horizontal.order import Participation
from fedforest.protocol.horizontal.party import HorizontalParty
from tests.protocol.horizontal.asking_one import AskedParty, ask_cuts
from tests.protocol.horizontal.federations import Shares, train_openly


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=12), st.data())
def test_groups_have_their_own_nodes_and_pairs_in_ascending_order(
    nodes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Nodes are (group, number of pairs)."""
    numbers = data.draw(st.permutations(range(6)))[: data.draw(st.integers(1, 6))]
    groups = np.array([group for group, _ in nodes], np.uint16)
    node_start = np.concatenate([[0], np.cumsum([size for _, size in nodes], dtype=np.int64)])
    grouping = Grouping.of(groups, numbers, node_start)
    for number, own_nodes, own_pairs in zip(
        numbers, cut_at(grouping.node_ends), cut_at(grouping.pair_ends), strict=True
    ):
        expected = [k for k, (group, _) in enumerate(nodes) if group == number]
        assert grouping.nodes[own_nodes].tolist() == expected
        pairs = [pair for k in expected for pair in range(node_start[k], node_start[k + 1])]
        assert grouping.pairs[own_pairs].tolist() == pairs


class OneByOne(HorizontalParty):
    """Answers every question of a request alone."""

    def _answer_questions(self, encoded: Sequence[memoryview]) -> list[NDArray[np.int64]]:
        return [self._answer_alone(one) for one in encoded]


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


def test_a_segment_that_is_asked_twice_in_one_request_is_refused() -> None:
    rng = np.random.default_rng(0)
    asked = AskedParty(rng.normal(size=(40, 2)), rng.integers(0, 2, 40))
    segments = memoryview(np.array([0, 1], "<u2").tobytes())
    asked.propose([[0], [1]], start=StartTrees(segments, bootstrap=False, n_draws=40, left_out=0))
    parts = [Part((), ask_cuts([cut], [False])) for cut in (0.0, 0.5)]
    with pytest.raises(ProtocolError, match="asked twice"):
        asked.tell(Count(asked.step + 1, tuple(parts)))
    assert len(asked.count([0.0], [False])) == 2
