"""One forest over the rows of several parties: the same whatever protects the sums."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import BudgetExhausted, ConfigurationError, DataError, TooFewParties
from fedforest.kernels.cuts.pairs import Pairs
from fedforest.masking.key_agreement import derive_key
from fedforest.masking.keystream import expand
from fedforest.privacy.budget import BudgetLedger
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.messages import CountMasked, MaskedCounted
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.packing import count_words
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.messages import CutsQuestion
from fedforest.protocol.horizontal.order import Participation, TrainedExtraTrees
from fedforest.protocol.horizontal.party.agreement import spending_of
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.protocol.horizontal.party.trees import HorizontalPartyTrees
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode
from fedforest.tree.files.forests import encode_forest
from fedforest.tree.forest.forest import ForestWalker
from fedforest.tree.growth.point_search import DrawWords
from fedforest.tree.table.frames import read_table
from fedforest.tree.workers import ALONE, Workers
from tests.protocol.horizontal.federations import (
    PER_STEP,
    Losing,
    OpenTraining,
    Shares,
    train_openly,
)
from tests.protocol.horizontal.transcripts import sizes_of_sums
from tests.reference.draws import choose_rows

PLUGS: list[Plug] = ["plain", Masked(), Masked(k=1), Ring(), Shamir(threshold=3)]


def make_shares(
    seed: int = 0, n_rows: int = 120, n_parties: int = 3, kind: str = "classes"
) -> Shares:
    """Random rows with ties, missing values and a column of categories."""
    rng = np.random.default_rng(seed)
    X: dict[str, NDArray[Any]] = {
        "small": rng.integers(0, 6, n_rows).astype(float),
        "wide": rng.normal(size=n_rows),
        "gaps": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
        "colour": rng.choice(["red", "green", "blue", "grey"], n_rows),
        "flat": np.zeros(n_rows),
    }
    score = X["wide"] + (X["colour"] == "red") + 0.3 * X["small"]
    noisy = score + rng.normal(scale=0.3, size=n_rows)
    y: NDArray[Any] = noisy if kind == "numbers" else np.digitize(noisy, [0.5, 1.5])
    weights = rng.integers(1, 4, n_rows).astype(float) if kind == "weights" else None
    return Shares(X, y, rng.integers(0, n_parties, n_rows), weights)


def forest_bytes(training: OpenTraining) -> bytes:
    return training.trained.model


@pytest.mark.parametrize("kind", ["classes", "weights", "numbers"])
def test_every_protection_gives_the_same_forest_to_the_byte(kind: str) -> None:
    shares = make_shares(kind=kind)
    models = {repr(plug): forest_bytes(train_openly(shares, plug)) for plug in PLUGS}
    assert len(set(models.values())) == 1, models.keys()


def make_counts() -> Shares:
    """The same rows with counts, most of them zero; all those of one party are."""
    shares = make_shares(kind="numbers")
    counts = np.maximum(np.round(shares.y - 1.0), 0.0)
    return replace(shares, y=np.where(shares.owner == 2, 0.0, counts))


def test_counts_are_scored_by_deviance_whatever_protects_the_sums() -> None:
    models = [
        forest_bytes(train_openly(make_counts(), plug, criterion="poisson")) for plug in PLUGS
    ]
    assert len(set(models)) == 1
    assert models[0] != forest_bytes(train_openly(make_counts()))


def test_targets_below_zero_or_all_at_it_are_refused_where_counts_are_demanded() -> None:
    below = replace(make_counts(), y=np.where(np.arange(120) == 7, -0.125, make_counts().y))
    for shares, reason in ((below, "some are negative"), (zeros(), "all are zero")):
        with pytest.raises(ConfigurationError, match=reason) as refused:
            train_openly(shares, Masked(), criterion="poisson")
        assert "0.125" not in str(refused.value)


def zeros() -> Shares:
    """The same rows, in which nothing was counted."""
    return replace(make_counts(), y=np.zeros(120))


@pytest.mark.parametrize("bootstrap", [True, False])
def test_drawn_rows_too_are_the_same_whatever_protects_the_sums(bootstrap: bool) -> None:
    shares = make_shares(seed=3)
    plain, masked = (
        train_openly(shares, plug, bootstrap=bootstrap, max_samples=0.8)
        for plug in ("plain", Masked())
    )
    assert forest_bytes(plain) == forest_bytes(masked)


class KnowsItsRows(HorizontalParty):
    """Remembers the rows at the roots of its trees, and by which seeds they were to be drawn."""

    drawn: list[list[int]]
    expected: list[list[int]]

    def _start(self, start: Any) -> HorizontalPartyTrees:
        n_trees, n_rows = len(start.segments) // 2, self._table.n_rows
        key = derive_key(self._row_secret, b"rows", self._n_batches.to_bytes(8, "little"))
        trees = super()._start(start)
        order = trees.search.rows.order
        mask = (1 << int(order.row_bits)) - 1
        ranges = zip(order.start.tolist(), order.stop.tolist(), strict=True)
        self.drawn = [[int(e) & mask for e in order.entries[a:b]] for a, b in ranges]
        n_draws = round(n_rows * start.n_draws / start.n_rows)
        self.expected = [
            [row for row, times in enumerate(choose_rows(seed, n_draws, n_rows)) if times]
            for seed in expand(key, n_trees).tolist()
        ]
        return trees


@pytest.mark.parametrize("max_samples", [0.4, 47])
@pytest.mark.parametrize("privacy", [None, LocalDP(keep=0.9)])
def test_without_replacement_every_party_draws_its_fraction_of_rows_once(
    max_samples: float, privacy: LocalDP | None
) -> None:
    shares = make_shares(n_parties=3)
    trained = train_openly(
        shares,
        party_options={"make_party": KnowsItsRows},
        max_samples=max_samples,
        privacy=privacy,
        max_depth=3,
    )
    for name, party in trained.parties.items():
        assert isinstance(party, KnowsItsRows)
        assert party.drawn == party.expected
        n_rows = shares.table(name).n_rows
        fraction = max_samples if max_samples < 1 else max_samples / len(shares.y)
        assert {len(rows) for rows in party.drawn} == {round(fraction * n_rows)}
        assert len({tuple(rows) for rows in party.drawn}) == 4, "every tree draws anew"


class FixedPoints(HorizontalParty):
    """Names the points that everybody names, as if all had drawn them inside the same range."""

    def _start(self, start: Any) -> HorizontalPartyTrees:
        trees = super()._start(start)
        search = trees.search
        propose, n_calls = search.propose, [0]

        def propose_fixed(
            pairs: Pairs, draw_words: DrawWords, least_rows: int
        ) -> NDArray[np.float32]:
            propose(pairs, draw_words, least_rows)
            n_calls[0] += 1
            rng = np.random.default_rng(n_calls[0])
            return rng.normal(size=len(pairs.feature)).astype(np.float32)

        search.propose = propose_fixed  # type: ignore[method-assign]
        return trees


@settings(max_examples=20)
@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.sampled_from(["classes", "weights", "numbers", "counts"]),
    st.sampled_from([0.0, 0.0, 0.04]),
)
def test_one_party_and_many_grow_the_same_forest_from_the_same_points(
    seed: int, n_parties: int, kind: str, share: float
) -> None:
    is_count = kind == "counts"
    shares = make_shares(seed, 60, n_parties, "numbers" if is_count else kind)
    criterion = "poisson" if is_count else "squared_error" if kind == "numbers" else "gini"
    shares = replace(shares, y=np.maximum(shares.y, 0.0)) if is_count else shares
    settings: dict[str, Any] = {
        "criterion": criterion,
        "party_options": {"make_party": FixedPoints},
        "max_depth": 5,
        "min_weight_fraction_leaf": share,
        "seed": seed,
    }
    many = train_openly(shares, **settings)
    one = train_openly(shares.alone(), **settings)
    assert forest_bytes(many) == forest_bytes(one)
    assert many.trained.forest.shape.n_nodes > 4


class FixedPointsOfKnownRows(FixedPoints, KnowsItsRows):
    """Names fixed points over rows that a test can read."""


@pytest.mark.parametrize("plug", ["plain", Masked()])
@pytest.mark.parametrize("kind", ["classes", "weights", "numbers"])
@pytest.mark.parametrize("max_samples", [0.5, 60])
def test_a_tree_of_rows_drawn_without_replacement_is_that_of_these_rows_at_one_party(
    plug: Plug, kind: str, max_samples: float
) -> None:
    shares = make_shares(n_parties=3, kind=kind)
    settings: dict[str, Any] = {"n_estimators": 1, "max_depth": 5}
    drawing = {"make_party": FixedPointsOfKnownRows}
    many = train_openly(shares, plug, party_options=drawing, max_samples=max_samples, **settings)
    drawn: list[int] = []
    for name, party in many.parties.items():
        assert isinstance(party, KnowsItsRows)
        drawn += shares.rows(name)[party.drawn[0]].tolist()
    assert len(drawn) == pytest.approx(60, abs=1)
    one = train_openly(
        shares.of_rows(drawn).alone(), party_options={"make_party": FixedPoints}, **settings
    )
    assert forest_bytes(many) == forest_bytes(one)
    assert many.trained.forest.shape.n_nodes > 4


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("kind", ["classes", "weights", "numbers"])
def test_every_leaf_weighs_its_share_of_all_rows(kind: str, share: float) -> None:
    shares = make_shares(kind=kind)
    limited, unlimited = (
        train_openly(shares, min_weight_fraction_leaf=least).trained for least in (share, 0.0)
    )
    assert lightest_leaf(limited, shares) >= share
    assert lightest_leaf(unlimited, shares) < 0.05
    n_trees = limited.forest.shape.n_trees
    assert limited.forest.shape.n_nodes > n_trees or share == 0.5  # roots are split


def lightest_leaf(trained: TrainedExtraTrees, shares: Shares) -> float:
    """The least share of the weight of all rows that any leaf has."""
    values = trained.bins.raw_values(read_table(shares.X), ALONE)
    leaves = ForestWalker(trained.forest).apply(values, ALONE)
    weights = np.ones(len(shares.y)) if shares.weights is None else shares.weights
    of_leaves = [np.bincount(of_tree, weights) for of_tree in leaves.T]
    return float(min(counts[counts > 0].min() for counts in of_leaves) / weights.sum())


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_under_noise_the_weight_of_leaves_is_that_of_noisy_sums(kind: str) -> None:
    shares = make_shares(kind=kind, n_rows=400)
    bounds = (-1.0, 3.0) if kind == "numbers" else None
    privacy = GlobalDP(epsilon_query=20.0, target_bounds=bounds)
    settings: dict[str, Any] = {"privacy": privacy, "max_depth": 6}
    limited = train_openly(shares, min_weight_fraction_leaf=0.1, **settings).trained
    assert lightest_leaf(limited, shares) > 0.1 - 0.02  # noise of scale 1/20, few of 400 rows
    assert limited.forest.shape.n_nodes > 2 * limited.forest.shape.n_trees
    unlimited = train_openly(shares, **settings).trained
    assert lightest_leaf(unlimited, shares) < 0.05


def test_every_party_holds_the_complete_forest_and_it_is_the_coordinators() -> None:
    training = train_openly(make_shares())
    for party in training.parties.values():
        assert party.model is not None
        stored = party.model
        assert encode_forest(stored.forest, stored.bins, stored.classes) == training.trained.model


def test_two_exchanges_per_step_and_three_around_them() -> None:
    training = train_openly(make_shares())
    n_steps = sum(training.trained.n_steps)
    assert len(training.log.exchanges) == 2 * n_steps + 3
    masked = train_openly(make_shares(), Masked())
    assert len(masked.log.exchanges) == 2 * n_steps + 6  # keys, peers, seeds


class MiddlePoints(HorizontalParty):
    """Names the middle of its ranges: by its rows alone, whatever grows beside a tree."""

    def _start(self, start: Any) -> HorizontalPartyTrees:
        trees = super()._start(start)
        search = trees.search
        propose = search.propose

        def propose_middle(
            pairs: Pairs, draw_words: DrawWords, least_rows: int
        ) -> NDArray[np.float32]:
            return propose(
                pairs, lambda *nodes: np.full_like(draw_words(*nodes), 2**63), least_rows
            )

        search.propose = propose_middle  # type: ignore[method-assign]
        return trees


@pytest.mark.parametrize("kind", ["classes", "weights", "numbers"])
def test_batches_of_trees_change_nothing_but_memory(kind: str) -> None:
    """Only parties' own points are drawn anew in every batch, so here they are not drawn."""
    shares = make_shares(seed=5, kind=kind)
    settings: dict[str, Any] = {
        "party_options": {"make_party": MiddlePoints},
        "n_estimators": 5,
    }
    together = train_openly(shares, **settings)
    assert len(together.trained.n_steps) == 1
    one_by_one = train_openly(shares, **settings, batch_bytes=1)
    assert len(one_by_one.trained.n_steps) == 5
    assert forest_bytes(one_by_one) == forest_bytes(together)
    assert together.trained.forest.shape.n_nodes > 50


def test_a_party_without_rows_and_a_class_that_only_one_party_has_are_fine() -> None:
    shares = make_shares(n_parties=2)
    owner = np.where(shares.y == 2, 0, shares.owner * 2)  # p1 has nothing, class 2 is p0's alone
    training = train_openly(Shares(shares.X, shares.y, owner))
    assert training.trained.classes is not None
    assert training.trained.classes.tolist() == [0, 1, 2]
    assert training.trained.forest.shape.n_nodes > 4


def test_columns_that_differ_are_named_with_their_party() -> None:
    class Renamed(Shares):
        def table(self, name: str) -> Any:
            table = super().table(name)
            return table.take([0, 1]) if name == "p1" else table

    shares = make_shares()
    with pytest.raises(DataError, match=r"'p1' has other columns.*lacks"):
        train_openly(Renamed(shares.X, shares.y, shares.owner))


@pytest.mark.parametrize("privacy", [LocalDP(keep=0.95), GlobalDP(epsilon_query=1.0)])
def test_noise_goes_with_any_protection_and_is_the_same_under_it(
    privacy: LocalDP | GlobalDP,
) -> None:
    shares = make_shares(n_rows=300)
    plain = train_openly(shares, "plain", privacy=privacy, max_depth=4)
    assert forest_bytes(plain) != forest_bytes(train_openly(shares, "plain", max_depth=4))
    for plug in PLUGS[1:]:
        noisy = train_openly(shares, plug, privacy=privacy, max_depth=4)
        assert forest_bytes(noisy) == forest_bytes(plain), plug
    assert plain.trained.forest.shape.n_nodes > 4


def test_noise_on_bounded_targets_keeps_means_within_bounds() -> None:
    shares = make_shares(kind="numbers", n_rows=300)
    privacy = GlobalDP(epsilon_query=0.05, target_bounds=(-1.0, 3.0))
    leaves = train_openly(shares, privacy=privacy, max_depth=4).trained.forest.leaves
    assert leaves.value.min() >= -1.0
    assert leaves.value.max() <= 3.0


def test_a_run_that_would_pass_a_partys_ceiling_is_refused_before_a_label_is_counted() -> None:
    shares, ledger = make_shares(), BudgetLedger(3.0)
    options = {"approve": lambda agreed: ledger.reserve("run 1", spending_of(agreed))}
    with pytest.raises(BudgetExhausted, match="ceiling of 3"):
        train_openly(
            shares, party_options=options, privacy=GlobalDP(epsilon_query=1.0), max_depth=4
        )
    assert ledger.spent == 0.0


def test_participation_draws_parties_per_tree_and_still_learns() -> None:
    shares = make_shares(n_parties=6, n_rows=400)
    half = Participation(0.5, "tree", 2)
    training = train_openly(shares, Masked(), participation=half, n_estimators=20, max_depth=4)
    by_level = [
        (exchange.note["level"], exchange.note["participants"])
        for exchange in training.log.exchanges
        if "participants" in exchange.note
    ]
    assert by_level[0][1] == pytest.approx(6 * 4 / 7, abs=1.0)  # one of three blocks or more
    sizes = sizes_of_sums(training)
    assert {2, 4} <= sizes <= {2, 4, 6}
    assert training.trained.forest.shape.n_nodes > 20


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_participants_of_every_step_too_grow_the_same_forest_under_every_protection(
    kind: str,
) -> None:
    shares = make_shares(kind=kind, n_parties=5, n_rows=300)
    grown = [train_openly(shares, plug, participation=PER_STEP) for plug in PLUGS]
    assert len({forest_bytes(training) for training in grown}) == 1


def test_where_every_step_draws_one_side_of_each_cut_and_its_node_are_asked() -> None:
    shares = make_shares(n_parties=5, n_rows=300)
    training = train_openly(shares, Masked(), participation=PER_STEP)
    n_classes, n_questions = 3, 0
    for requests, replies in zip(
        training.recorder.requests, training.recorder.replies, strict=True
    ):
        for party, data in requests.items():
            request = decode(data, REQUESTS)
            if not isinstance(request, CountMasked):
                continue
            [part] = request.parts
            question = msgspec.msgpack.decode(part.question, type=CutsQuestion)
            n_cuts = int((~np.isnan(np.frombuffer(question.threshold, "<f4"))).sum())
            n_nodes = int(np.unpackbits(np.frombuffer(question.wholes, np.uint8)).sum())
            reply = decode(replies[party], (MaskedCounted,))
            assert isinstance(reply, MaskedCounted)
            n_words = count_words(n_classes * (n_cuts + n_nodes), request.per_word)
            assert len(reply.sums.data) == 8 * n_words
            assert n_nodes <= max(n_cuts, 4)  # at most the roots have none
            n_questions += 1
    assert n_questions > 10


@pytest.mark.parametrize("plug", PLUGS)
@pytest.mark.parametrize("at", [7, 8, 9, 12])
def test_a_lost_party_is_left_out_and_the_forest_is_finished_without_it(
    plug: Plug, at: int
) -> None:
    shares = make_shares(n_parties=4, n_rows=200)
    training = train_openly(shares, plug, wrap=lambda inner: Losing(inner, "p2", at))
    assert training.trained.lost == ("p2",)
    assert training.trained.forest.shape.n_trees == 4
    assert training.parties["p2"].model is None
    assert training.parties["p3"].model is not None


def test_when_too_few_parties_are_left_the_run_ends_with_a_named_error() -> None:
    shares = make_shares(n_parties=2)
    with pytest.raises(TooFewParties):
        train_openly(
            shares,
            Masked(),
            wrap=lambda inner: Losing(inner, "p1", 8),
            participation=Participation(1.0, "tree", 2),
        )


def test_threads_do_not_change_the_forest() -> None:
    shares = make_shares(n_rows=5000)
    with ThreadPoolExecutor(2) as executor:
        threaded = train_openly(
            shares, party_options={"workers": Workers(executor, 3)}, n_estimators=2
        )
    assert forest_bytes(threaded) == forest_bytes(train_openly(shares, n_estimators=2))
