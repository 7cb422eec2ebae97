"""Points that a party names are never its values: against paper-like parties the attack succeeds.

The paper's parties draw a point between their lowest and highest value. With one row both are the
value itself. The coordinator knows when that is so: if a node has as many rows as parties that name
a point, each of them has one.
"""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import Pairs
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.protocol.horizontal.party.trees import HorizontalPartyTrees
from fedforest.tree.growth.point_search import DrawWords
from tests.protocol.horizontal.asking_one import AskedParty, split_all, start_trees
from tests.protocol.horizontal.federations import OpenTraining, Shares, train_openly
from tests.protocol.horizontal.transcripts import read_transcript


class PaperParty(HorizontalParty):
    """Names a point in every node in which it has a row, uniform from its lowest to its highest."""

    def _start(self, start: Any) -> HorizontalPartyTrees:
        trees = super()._start(start)
        search = trees.search
        propose = search.propose

        def propose_always(
            pairs: Pairs, draw_words: DrawWords, least_rows: int
        ) -> NDArray[np.float32]:
            propose(pairs, draw_words, least_rows)
            points = np.full(len(pairs.feature), np.nan, np.float32)
            words = draw_words(0, len(pairs.node_start) - 1)[:, 0]
            units = words * 2.0**-64
            nodes = np.repeat(np.arange(len(pairs.node_start) - 1), np.diff(pairs.node_start))
            columns = search.columns.values.reshape(len(search.columns.is_categorical), -1)
            for pair, node in enumerate(nodes.tolist()):
                values = columns[search.pairs.feature[pair], search.rows_of(node)]
                if len(values):
                    points[pair] = values.min() + (values.max() - values.min()) * units[pair]
            return points

        search.propose = propose_always  # type: ignore[method-assign]
        return trees


class Claim(NamedTuple):
    """What the attack says: this party has a row with this value in this column."""

    party: str
    column: int
    value: np.float32


def claim_values(training: OpenTraining) -> list[Claim]:
    """By nodes that have as many rows as parties that name a point."""
    transcript = read_transcript(training)
    claims = []
    for (node, column), points in transcript.points.items():
        named = {party: point for party, point in points.items() if not np.isnan(point)}
        [counts] = transcript.facts[node].values()
        if 0 < len(named) == counts.sum():
            claims += [Claim(p, column, np.float32(point)) for p, point in named.items()]
    return claims


def wide_shares() -> Shares:
    rng = np.random.default_rng(3)
    return Shares(rng.normal(size=(90, 4)), rng.integers(0, 2, 90), np.arange(90) % 3)


def train_with(party: type[HorizontalParty]) -> OpenTraining:
    return train_openly(wide_shares(), Masked(), party_options={"make_party": party})


def test_parties_that_name_points_of_single_rows_give_their_values_away() -> None:
    shares, claims = wide_shares(), claim_values(train_with(PaperParty))
    assert len(claims) > 20
    for party, column, value in claims:
        assert value in shares.X[shares.rows(party), column].astype(np.float32)


def test_parties_that_abstain_give_no_value_away() -> None:
    training = train_with(HorizontalParty)
    assert claim_values(training) == []
    shares = wide_shares()
    points = read_transcript(training).points
    for (_, column), named in points.items():
        for party, point in named.items():
            own = shares.X[shares.rows(party), column].astype(np.float32)
            assert not (own == np.float32(point)).any()
    assert len(points) > 100


NUMBERS = st.floats(-4, 4, width=16, allow_nan=False) | st.sampled_from(
    [0.0, -0.0, 1e-45, 1.0, np.nextafter(np.float32(1), np.float32(2)), 3e38, -3e38, np.nan]
)
TABLES = npst.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=NUMBERS)


def make_party(X: NDArray[np.float64]) -> AskedParty:
    return AskedParty(X, np.arange(len(X)) % 2)


def assert_inside(point: np.float32, values: NDArray[np.float64]) -> None:
    """Strictly between the lowest and the highest value, or nothing if there is no such number."""
    seen = np.unique(values[~np.isnan(values)].astype(np.float32))
    is_range = len(seen) > 1 and np.nextafter(seen[0], np.float32(np.inf)) < seen[-1]
    assert np.isnan(point) != is_range
    if is_range:
        assert seen[0] < point < seen[-1]


@settings(max_examples=60)
@given(TABLES, st.integers(0, 10**6))
def test_a_point_lies_strictly_inside_the_range_of_a_node_or_is_not_named(
    X: NDArray[np.float64], seed: int
) -> None:
    party = AskedParty(X, np.arange(len(X)) % 2, seed=seed)
    points = party.propose([[0, 1]], start=start_trees(1, len(X)))
    for column in (0, 1):
        assert_inside(points[column], X[:, column])
    cut = np.float32(0.25)
    points = party.propose([[0, 1], [0, 1]], moves=split_all([0], [float(cut)]))
    goes_left = X[:, 0].astype(np.float32) <= cut  # missing values go right
    for node, rows in enumerate((goes_left, ~goes_left)):
        for column in (0, 1):
            assert_inside(points[2 * node + column], X[rows, column])


@given(TABLES)
def test_single_rows_and_constant_columns_are_never_told(X: NDArray[np.float64]) -> None:
    one_row = make_party(X[:1]) if len(X) > 1 else make_party(X)
    assert np.isnan(one_row.propose([[0, 1]], start=start_trees(1, 1))).all()
    constant = make_party(np.repeat(X[:1], 5, axis=0))
    assert np.isnan(constant.propose([[0, 1]], start=start_trees(1, 5))).all()


@given(npst.arrays(np.float64, 8, elements=st.floats(-1, 1, width=32)), st.integers(0, 1000))
def test_a_point_depends_on_nothing_between_the_extremes(
    between: NDArray[np.float64], seed: int
) -> None:
    """So that it is a value of the party's by chance only, and nobody can tell."""
    points = []
    for middle in (between, np.zeros(8)):
        X = np.concatenate([[-1.0], middle, [1.0]]).reshape(-1, 1)
        party = AskedParty(X, np.arange(10) % 2, seed=seed)
        points.append(party.propose([[0]], start=start_trees(1, 10))[0])
    assert points[0] == points[1]
