"""The differencing attack, by the coordinator alone, on real transcripts of masked trainings.

Where the parties of a sum change between two sums over the same rows, their difference is a single
party's own. It succeeds against parties drawn at every step, and against a naive retry if parties
do not watch whom they are added up with. Against the defaults it fails: parties take part, and
leave the run, in blocks that all of them agreed on. A coordinator that wants it otherwise is
refused; `tests/hostile/` has more of its tricks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from fedforest.errors import ProtocolError
from fedforest.protocol.aggregation.base import Aggregation
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.asking import Conversation
from fedforest.protocol.horizontal.coordinator.training import train
from fedforest.protocol.horizontal.messages import AgreeOnTable, CutsQuestion
from fedforest.protocol.horizontal.order import (
    HorizontalOrder,
    Participation,
    TrainedExtraTrees,
)
from tests.protocol.horizontal.federations import (
    PER_STEP,
    Losing,
    OpenTraining,
    Shares,
    train_openly,
)
from tests.protocol.horizontal.naive_coordinator import train_naively
from tests.protocol.horizontal.transcripts import (
    Node,
    SpiedParty,
    Transcript,
    read_transcript,
    read_truth,
)


class CarelessParty(SpiedParty):
    """Does not watch whom it is added up with, nor how often."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "scope": "step"})

    def _join(self, request: Any, questions: Sequence[CutsQuestion]) -> None:  # noqa: ARG002 - it does not look
        if self._trees is not None:
            self._trees.counted = frozenset()


SPIED = {"make_party": SpiedParty}
CARELESS = {"make_party": CarelessParty}
PER_TREE = Participation(0.5, "tree", 2)
SINGLES = Participation(0.7, "tree", 1)
N_CLASSES = 3


def make_shares(n_rows: int = 160, n_parties: int = 4, seed: int = 0) -> Shares:
    """Parties of different sizes and with different class shares."""
    rng = np.random.default_rng(seed)
    owner = np.arange(n_rows) % n_parties
    X = rng.normal(size=(n_rows, 4))
    y = (rng.random(n_rows) * (1.5 + owner)).astype(np.int64) % N_CLASSES
    return Shares(X, y, owner)


def assert_all_true(training: OpenTraining, transcript: Transcript, least: int) -> None:
    """What the attack says is what the exposed party counted in that very node."""
    exposed = transcript.expose()
    assert len(exposed) >= least
    truth = {party: read_truth(training, party) for party in training.parties}
    for node, party, counts, by in exposed:
        assert counts.tolist() == truth[party].facts[node][by].tolist()


def test_parties_that_are_drawn_at_every_step_are_exposed() -> None:
    """Parent's left count against child's total: the paper's own way of drawing participants."""
    training = train_openly(
        make_shares(), Masked(), participation=PER_STEP, max_depth=6, party_options=SPIED, seed=2
    )
    assert_all_true(training, read_transcript(training), least=10)


@pytest.mark.parametrize("k", [None, 1])
def test_a_step_that_is_repeated_without_a_lost_party_exposes_it(k: int | None) -> None:
    """Counts of children by those that are left, against counts of the same nodes by everybody."""
    training = train_openly(
        make_shares(),
        Masked(k),
        wrap=lambda inner: Losing(inner, "p2", 10),
        max_depth=5,
        party_options=CARELESS,
        coordinate=train_naively,
    )
    assert training.trained.lost == ("p2",)
    transcript = read_transcript(training)
    assert_all_true(training, transcript, least=4)
    assert {exposed.party for exposed in transcript.expose()} == {"p2"}


@pytest.mark.parametrize(
    ("plug", "n_exchanges"), [(Masked(), 10), (Masked(1), 10), (Ring(), 10), (Shamir(2), 11)]
)
def test_a_party_does_not_count_a_tree_again_without_those_it_began_with(
    plug: Plug, n_exchanges: int
) -> None:
    with pytest.raises(ProtocolError, match="other parties than the seed of the run draws"):
        train_openly(
            make_shares(),
            plug,
            wrap=lambda inner: Losing(inner, "p2", n_exchanges),
            max_depth=5,
            coordinate=train_naively,
        )


@pytest.mark.parametrize("participation", [Participation(), PER_TREE, Participation(0.6, "run", 2)])
def test_by_default_no_node_is_ever_counted_by_different_parties(
    participation: Participation,
) -> None:
    training = train_openly(
        make_shares(), Masked(), participation=participation, max_depth=6, n_estimators=8
    )
    transcript = read_transcript(training)
    assert len(transcript.facts) > 100
    assert {len(facts) for facts in transcript.facts.values()} == {1}
    assert transcript.expose() == []


@dataclass(frozen=True, eq=False)
class RootSums:
    """Class counts over sets of parties, as a system of linear equations in the parties' own."""

    names: tuple[str, ...]
    takes_part: NDArray[np.float64]  # (sums, parties)
    counts: NDArray[np.float64]  # (sums, classes)

    @classmethod
    def of(cls, shares: Shares, transcript: Transcript) -> "RootSums":
        sums = [*transcript.roots().values(), *transcript.tables.items()]
        takes_part = [[name in parties for name in shares.names] for parties, _ in sums]
        counts = [counts for _, counts in sums]
        return cls(shares.names, np.array(takes_part, float), np.array(counts, float))

    def determines(self, weights: NDArray[np.float64]) -> bool:
        """Whether some combination of the sums is this combination of the parties' counts."""
        ranks = [np.linalg.matrix_rank(a) for a in (self.takes_part, [*self.takes_part, weights])]
        return bool(ranks[0] == ranks[1])

    def solve(self) -> NDArray[np.float64]:
        """(parties, classes): the shortest solution, and the only one where there is just one."""
        solution: NDArray[np.float64] = np.linalg.lstsq(self.takes_part, self.counts)[0]  # type: ignore[assignment] # of float64
        return solution


def root_sums(shares: Shares, participation: Participation, **settings: Any) -> RootSums:
    """What the coordinator knows of all rows of sets of parties after a training of many trees."""
    training = train_openly(
        shares, Masked(), participation=participation, max_depth=1, n_estimators=40, **settings
    )
    return RootSums.of(shares, read_transcript(training))


def table_counts(shares: Shares) -> NDArray[np.int64]:
    """The secret, (parties, classes): everybody's class counts over its whole table."""
    own = [shares.y[shares.rows(name)] for name in shares.names]
    return np.array([np.bincount(labels, minlength=N_CLASSES) for labels in own])


def train_in_singles(
    order: HorizontalOrder, aggregation: Aggregation
) -> Conversation[TrainedExtraTrees]:
    """Draw single parties for every tree, and tell parties that each of them is a block."""
    aggregation.is_protected = False  # type: ignore[misc] # so that blocks are of one party
    conversation = train(order, aggregation)
    blocks = tuple((party,) for party in order.parties)
    question = next(conversation)
    while True:
        told: dict[str, Any] = {
            party: structs.replace(request, blocks=blocks)
            if isinstance(request, AgreeOnTable)
            else request
            for party, request in question.requests.items()
        }
        replies = yield replace(question, requests=told)
        try:
            question = conversation.send(replies)
        except StopIteration as done:
            trained: TrainedExtraTrees = done.value
            return trained


def test_single_parties_drawn_for_every_tree_would_be_exposed_by_their_roots() -> None:
    """Every root holds all rows of its participants; here nobody is bound to take part together."""
    shares = make_shares(n_parties=5)
    sums = root_sums(shares, SINGLES, seed=1, party_options=CARELESS, coordinate=train_in_singles)
    assert all(sums.determines(party) for party in np.eye(5))
    assert np.rint(sums.solve()).tolist() == table_counts(shares).tolist()


def test_parties_refuse_trees_whose_participants_tell_one_of_them_apart() -> None:
    with pytest.raises(ProtocolError, match="fewer than 2 parties with rows"):
        root_sums(make_shares(n_parties=5), SINGLES, seed=5, coordinate=train_in_singles)


@pytest.mark.parametrize("n_parties", [4, 5, 6])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_parties_drawn_in_blocks_are_not_exposed_by_any_combination_of_sums(
    n_parties: int, class_weight: str | None
) -> None:
    """What remains are the counts of blocks of two parties or more, and these are exact."""
    shares = make_shares(n_parties=n_parties)
    sums = root_sums(shares, PER_TREE, class_weight=class_weight)
    assert len(np.unique(sums.takes_part, axis=0)) > 1  # trees do differ in who takes part
    assert not any(sums.determines(party) for party in np.eye(n_parties))
    blocks = np.unique(sums.takes_part.T, axis=0, return_inverse=True)[1].reshape(-1)
    secret = table_counts(shares)
    for block in set(blocks.tolist()):
        members = blocks == block
        assert members.sum() >= 2
        told = members @ sums.solve()
        assert np.rint(told).tolist() == secret[members].sum(axis=0).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_class_weights_counted_over_all_tables_do_not_expose_who_sits_out_the_run(
    seed: int,
) -> None:
    """All tables' class counts less the roots of the run's participants: nobody's own."""
    shares = make_shares(n_parties=5)
    sums = root_sums(shares, Participation(0.5, "run", 2), class_weight="balanced", seed=seed)
    assert not any(sums.determines(party) for party in np.eye(5))


def lose_p2() -> OpenTraining:
    """Three trees are finished; three more, and all others, are begun anew without p2."""
    return train_openly(
        make_shares(),
        Masked(),
        wrap=lambda inner: Losing(inner, "p2", 11),
        n_estimators=12,
        max_depth=2,
        batch_bytes=3 * 40 * (16 + 4 * 2),  # three trees of 40 rows and two candidate columns
        party_options=SPIED,
    )


def test_after_a_loss_no_node_is_counted_again() -> None:
    training = lose_p2()
    assert training.trained.lost == ("p2",)
    transcript = read_transcript(training)
    assert {len(facts) for facts in transcript.facts.values()} == {1}
    assert transcript.expose() == []


def test_what_remains_after_a_loss_are_the_counts_of_the_block_that_left_not_of_one_party() -> None:
    """Roots before less roots after: the lost party and its companion together, and no more."""
    shares = make_shares()
    sums = RootSums.of(shares, read_transcript(lose_p2()))
    [left] = {tuple(row) for row in sums.takes_part.tolist() if 0.0 in row}
    block = 1.0 - np.array(left)
    assert block[2] == 1.0
    assert block.sum() == 2
    assert sums.determines(block)
    secret = table_counts(shares)
    assert np.rint(block @ sums.solve()).tolist() == (block @ secret).tolist()
    assert not any(sums.determines(party) for party in np.eye(4))


@pytest.mark.parametrize("participation", [Participation(), PER_TREE])
def test_after_two_losses_no_combination_of_sums_is_one_party_s(
    participation: Participation,
) -> None:
    shares = make_shares(n_parties=8)
    training = train_openly(
        shares,
        Masked(),
        wrap=lambda inner: Losing(Losing(inner, "p2", 11), "p5", 15),
        participation=participation,
        n_estimators=12,
        max_depth=2,
        batch_bytes=3 * 20 * (16 + 4 * 2),
        party_options=SPIED,
    )
    assert training.trained.lost == ("p2", "p5")
    sums = RootSums.of(shares, read_transcript(training))
    assert len(np.unique(sums.takes_part, axis=0)) > 2
    assert not any(sums.determines(party) for party in np.eye(8))


def test_what_remains_in_nodes_of_two_rows_is_whose_they_are() -> None:
    """Who names a point has two rows at least. If there are no more, all of them are its own.

    No difference is needed: points are not protected, and small nodes are what forests end in.
    """
    training = train_openly(make_shares(), Masked(), party_options=SPIED, n_estimators=8)
    transcript = read_transcript(training)
    truth = {party: read_truth(training, party) for party in training.parties}
    named: dict[Node, set[str]] = {}
    for (node, _), points in transcript.points.items():
        own = {party for party, point in points.items() if not np.isnan(point)}
        named[node] = named.get(node, set()) | own
    lonely = 0
    for node, parties in named.items():
        [(everybody, counts)] = transcript.facts[node].items()
        if counts.sum() == 2 and len(parties) == 1:
            [owner] = parties
            alone = truth[owner].facts[node][everybody]
            assert alone.tolist() == counts.tolist()
            lonely += 1
    assert lonely > 10


@pytest.mark.parametrize("limit", [{"min_samples_leaf": 2}, {"min_samples_split": 3}])
def test_nodes_of_two_rows_are_not_asked_about_where_they_may_not_be_split(
    limit: dict[str, Any],
) -> None:
    """As the leakage report advises."""
    training = train_openly(make_shares(), Masked(), party_options=SPIED, n_estimators=8, **limit)
    transcript = read_transcript(training)
    sizes = [
        int(counts.sum())
        for node, _ in transcript.points
        for counts in transcript.facts[node].values()
    ]
    assert len(sizes) > 100
    assert min(sizes) > 2


def test_what_remains_are_labels_of_single_rows_on_sides_of_cuts_that_are_not_made() -> None:
    """A cut is counted before anybody knows how even it is; whose the row is, masks do hide."""
    training = train_openly(
        make_shares(), Masked(), n_estimators=8, min_samples_leaf=5, party_options=SPIED
    )
    transcript = read_transcript(training)
    assert min(int(counts.sum()) for by in transcript.facts.values() for counts in by.values()) >= 5
    single = [
        side
        for (node, _), cut in transcript.cuts.items()
        for side in (cut.left, transcript.facts[node][cut.parties] - cut.left)
        if side.sum() == 1
    ]
    assert len(single) > 10
    assert {int(side.argmax()) for side in single} == {0, 1, 2}  # labels, as they are


def test_what_remains_of_a_class_that_one_party_alone_declares_is_all_of_its_counts() -> None:
    """A sum over one is that one's own, and declared classes tell who it is."""
    shares = make_shares()
    y = np.where((shares.y == 2) & (shares.owner != 1), 0, shares.y)
    training = train_openly(
        Shares(shares.X, y, shares.owner), Masked(), party_options=SPIED, max_depth=4
    )
    transcript, truth = read_transcript(training), read_truth(training, "p1")
    told = [
        counts[2] == truth.facts[node][parties][2]
        for node, facts in transcript.facts.items()
        for parties, counts in facts.items()
    ]
    assert len(told) > 20
    assert all(told)
