"""The differencing attack, by the coordinator alone, on real transcripts of masked trainings.

Where the parties of a sum change between two sums over the same rows, their difference is a single
party's own. It succeeds against parties drawn at every step and against a naive retry. Against the
defaults no two sums are over the same rows: within a tree the parties stay the same, and between
trees every party leaves out a secret part of its rows. What remains is measured at the end.
"""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.horizontal.order import Participation
from tests.protocol.horizontal.federations import (
    PER_STEP,
    Losing,
    OpenTraining,
    Shares,
    train_openly,
)
from tests.protocol.horizontal.naive_coordinator import train_naively
from tests.protocol.horizontal.transcripts import (
    Counts,
    Parties,
    SpiedParty,
    Transcript,
    read_transcript,
    read_truth,
)

SPIED = {"make_party": SpiedParty}
PER_TREE = Participation(0.5, "tree", 2)
N_CLASSES = 3


def make_shares(n_rows: int = 160, n_parties: int = 4, seed: int = 0) -> Shares:
    """Parties of different sizes and with different class shares."""
    rng = np.random.default_rng(seed)
    owner = np.arange(n_rows) % n_parties
    X = rng.normal(size=(n_rows, 4))
    y = (rng.random(n_rows) * (1.5 + owner)).astype(np.int64) % N_CLASSES
    return Shares(X, y, owner)


def table_counts(shares: Shares) -> dict[str, Counts]:
    """The secret: every party's class counts over its whole table."""
    return {p: np.bincount(shares.y[shares.rows(p)], minlength=N_CLASSES) for p in shares.names}


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
        make_shares(), Masked(), participation=PER_STEP, max_depth=6, party_options=SPIED
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
        party_options=SPIED,
        coordinate=train_naively,
    )
    assert training.trained.lost == ("p2",)
    transcript = read_transcript(training)
    assert_all_true(training, transcript, least=4)
    assert {exposed.party for exposed in transcript.expose()} == {"p2"}


def lose_p2(at: int = 10) -> OpenTraining:
    """One batch is finished, the second is begun anew without p2."""
    shares = make_shares()
    return train_openly(
        shares,
        Masked(),
        wrap=lambda inner: Losing(inner, "p2", at),
        n_estimators=12,
        max_depth=2,
        batch_bytes=3 * 40 * (16 + 4 * 2),
        party_options=SPIED,
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


def test_after_a_loss_no_node_is_counted_again() -> None:
    training = lose_p2()
    assert training.trained.lost == ("p2",)
    transcript = read_transcript(training)
    assert {parties for parties, _ in transcript.roots().values()} == {
        frozenset({"p0", "p1", "p2", "p3"}),
        frozenset({"p0", "p1", "p3"}),
    }
    assert {len(facts) for facts in transcript.facts.values()} == {1}
    assert transcript.expose() == []


def pair_differences(
    roots: list[tuple[Parties, Counts]], secret: dict[str, Counts]
) -> NDArray[np.int64]:
    """Differences between roots whose sets differ in one party, less that party's own counts."""
    return np.array(
        [
            more - fewer - secret[next(iter(larger - smaller))]
            for larger, more in roots
            for smaller, fewer in roots
            if smaller < larger and len(larger - smaller) == 1
        ]
    )


@cache
def roots_of_many_trees(n_rows: int, n_trees: int, **_: object) -> list[tuple[Parties, Counts]]:
    """What the coordinator knows of the roots of trees with other parties each."""
    training = train_openly(
        make_shares(n_rows), Masked(), participation=PER_TREE, max_depth=1, n_estimators=n_trees
    )
    return list(read_transcript(training).roots().values())


def test_roots_of_trees_with_other_parties_differ_by_what_everybody_left_out() -> None:
    """100 rows at each of four parties: a difference is off by 8 rows in each class."""
    shares = make_shares(400)
    errors = pair_differences(roots_of_many_trees(400, 40), table_counts(shares))
    assert len(errors) > 100
    assert not (errors == 0).all(axis=1).any()  # no party's class counts are told
    assert 5.0 < np.sqrt((errors**2).mean()) < 12.0


def test_sizes_of_roots_do_not_tell_how_many_rows_a_party_leaves_out() -> None:
    """One size per party would solve these equations exactly: there are ten times as many."""
    roots = roots_of_many_trees(400, 40)
    takes_part = np.array([[f"p{k}" in parties for k in range(4)] for parties, _ in roots])
    sizes = np.array([counts.sum() for _, counts in roots], np.float64)
    solved = np.linalg.lstsq(takes_part.astype(float), sizes, rcond=None)[0]
    assert np.abs(takes_part @ solved - sizes).max() > 10.0


def test_after_a_loss_differences_are_off_by_what_the_others_left_out() -> None:
    """All rows of all, less the roots of those that are left: 5% to 25% of their rows too much."""
    training, shares = lose_p2(), make_shares()
    everybody, others = frozenset(shares.names), frozenset({"p0", "p1", "p3"})
    roots = list(read_transcript(training).roots().values())
    [all_rows] = {tuple(counts) for parties, counts in roots if parties == everybody}
    assert sum(all_rows) == len(shares.y)  # finished trees had all rows of everybody
    after = np.array([counts for parties, counts in roots if parties == others])
    assert len(after) >= 9
    n_others, secret = 120, table_counts(shares)["p2"]
    excess = np.array(all_rows) - after - secret
    assert (excess >= 0).all()
    assert (0.05 * n_others - 3 <= excess.sum(axis=1)).all()  # each of three rounds to whole rows
    assert (excess.sum(axis=1) <= 0.25 * n_others + 3).all()
    assert len(set(excess.sum(axis=1).tolist())) > 3  # not the same in every tree


@pytest.mark.parametrize("max_samples", [0.999, 0.9, None])
def test_a_subsample_that_the_coordinator_knows_is_not_all_that_is_left_out(
    max_samples: float | None,
) -> None:
    """`max_samples` tells how many rows a tree draws, so it is no secret; thinning comes on top."""
    training = train_openly(
        make_shares(400),
        Masked(),
        participation=PER_TREE,
        max_depth=1,
        n_estimators=12,
        max_samples=max_samples,
        bootstrap=max_samples is not None,
    )
    drawn = 100 * (max_samples or 1.0)
    sizes = [
        counts.sum() / (len(parties) * drawn)
        for parties, counts in read_transcript(training).roots().values()
    ]
    assert 0.74 < min(sizes) < max(sizes) < 0.96
    assert len(set(sizes)) > 8


def test_class_weights_counted_over_all_tables_do_not_expose_who_sits_out_the_run() -> None:
    """All tables' class counts less the roots of the run's participants, if these had all rows."""
    shares = make_shares()
    training = train_openly(
        shares,
        Masked(),
        participation=Participation(0.8, "run", 3),
        class_weight="balanced",
        max_depth=1,
        n_estimators=6,
        seed=0,
    )
    transcript = read_transcript(training)
    [(everybody, all_rows)] = transcript.tables.items()
    roots = list(transcript.roots().values())
    [participants] = {parties for parties, _ in roots}
    [sat_out] = everybody - participants
    secret = table_counts(shares)[sat_out]
    assert all((all_rows - counts).sum() > secret.sum() + 5 for _, counts in roots)


def estimate_counts(roots: list[tuple[Parties, Counts]], names: tuple[str, ...]) -> NDArray:
    """Least squares over all trees: each party keeps 85% of its rows on average."""
    takes_part = np.array([[name in parties for name in names] for parties, _ in roots])
    counts = np.array([counts for _, counts in roots], np.float64)
    return np.linalg.lstsq(0.85 * takes_part, counts, rcond=None)[0]


@pytest.mark.parametrize(("n_trees", "low", "high"), [(40, 0.8, 3.0), (200, 0.3, 1.2)])
def test_what_remains_is_an_estimate_that_many_trees_sharpen(
    n_trees: int, low: float, high: float
) -> None:
    """What is left out differs from tree to tree, so it averages out, as 1 / sqrt(trees).

    100 rows at each of four parties: class counts are told to within 2 rows by 40 trees and 1 by
    200, and class shares to within 3%. A party of 20 rows would be exposed by 200 trees.
    """
    shares = make_shares(400)
    secret = np.array(list(table_counts(shares).values()))
    estimate = estimate_counts(roots_of_many_trees(400, n_trees), shares.names)
    error = np.sqrt(((estimate - secret) ** 2).mean())
    assert low < error < high
    shares_of_classes = estimate / estimate.sum(axis=1, keepdims=True)
    assert np.abs(shares_of_classes - secret / 100).max() < 0.03


def test_what_remains_in_nodes_of_two_rows_is_whose_they_are() -> None:
    """Who names a point has two rows at least. If there are no more, all of them are its own.

    No difference is needed: points are not protected, and small nodes are what forests end in.
    """
    training = train_openly(make_shares(), Masked(), party_options=SPIED, n_estimators=8)
    transcript = read_transcript(training)
    truth = {party: read_truth(training, party) for party in training.parties}
    named: dict[object, set[str]] = {}
    for (node, _), points in transcript.points.items():
        own = {party for party, point in points.items() if not np.isnan(point)}
        named[node] = named.get(node, set()) | own
    lonely = 0
    for node, parties in named.items():
        [(everybody, counts)] = transcript.facts[node].items()  # type: ignore[index]
        if counts.sum() == 2 and len(parties) == 1:
            [owner] = parties
            own = truth[owner].facts[node][everybody]  # type: ignore[index]
            assert own.tolist() == counts.tolist()
            lonely += 1
    assert lonely > 10
