"""Prediction over parties, against the leaf sets of the paper."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import FederationError
from fedforest.kernels.prediction.leap import LEAP
from fedforest.kernels.prediction.sweep import MAX_SWEPT_LEVELS
from fedforest.protocol.contract import list_clauses
from fedforest.protocol.network import Network
from fedforest.protocol.vertical.prediction import coordinator as prediction
from fedforest.protocol.vertical.prediction.contract import CONTRACT
from fedforest.protocol.vertical.prediction.coordinator import Pace
from fedforest.protocol.vertical.prediction.messages import (
    LeapRows,
    RowsLeapt,
    RowsRouted,
    RowsSwept,
)
from fedforest.protocol.vertical.prediction.plan import (
    MAX_CHOSEN_LOOKAHEAD,
    Manner,
    Plan,
    plan_for,
)
from fedforest.transport.codec import decode
from fedforest.tree.forest.partial import PartialForest
from fedforest.tree.forest.routes import OwnerRoutes
from tests.protocol.vertical.cases import VerticalCase, sample_case, vertical_cases
from tests.protocol.vertical.conversations import (
    CLASSICAL,
    ONE_ROUND,
    OpenTraining,
    depths_of_leaves,
    leap_after,
    party_tables,
    predict_openly,
    predicting_parties,
    sweep_then,
    train_openly,
)
from tests.reference.leaf_sets import goes_left, intersect, own_questions

DOCUMENT = Path(__file__).parents[4] / "docs" / "explanation" / "protocols" / "vertical.md"
PREDICTION = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])


def leaves_by_intersection(training: OpenTraining) -> list[list[int]]:
    """[tree][row]: the one leaf that everybody leaves possible."""
    models = training.models()
    tables = party_tables(training.case)
    bins = {party: model.bins.transform(tables[party]) for party, model in models.items()}
    # who has no column leaves every leaf possible
    partials = {p: model.partial for p, model in models.items() if model.partial.n_features}
    found: list[list[int]] = []
    for tree in range(training.trained.outline.shape.n_trees):
        found.append([])
        for row in range(len(training.case.y)):
            rows = [bins[party][:, row] for party in partials]
            (leaf,) = intersect(list(partials.values()), tree, rows)
            found[-1].append(leaf)
    return found


@PREDICTION
@given(vertical_cases(max_rows=40))
def test_every_row_reaches_the_one_leaf_that_all_parties_leave_possible(
    case: VerticalCase,
) -> None:
    training = train_openly(case)
    expected = leaves_by_intersection(training)
    depth = int(training.trained.outline.shape.depths().max())
    for lookahead in (CLASSICAL, *range(1, depth + 2), ONE_ROUND):
        assert predict_openly(training, lookahead).leaf_of.tolist() == expected, lookahead
    for n_swept in range(1, min(depth + 1, MAX_SWEPT_LEVELS) + 1):
        for lookahead in (1, 2):
            predicted = predict_openly(training, sweep_then(n_swept, lookahead))
            assert predicted.leaf_of.tolist() == expected, (n_swept, lookahead)
    for before in ((), (1,), (3,), (0, 1), (0, 2), (2, 2)):
        assert predict_openly(training, leap_after(*before)).leaf_of.tolist() == expected, before
    back_to_nodes = (*leap_after(1)[:2], *sweep_then(1, 2)[1:])
    assert predict_openly(training, back_to_nodes).leaf_of.tolist() == expected


@PREDICTION
@given(vertical_cases(max_rows=40))
def test_one_round_outcomes_are_those_of_the_own_splits_a_row_can_reach_and_no_more(
    case: VerticalCase,
) -> None:
    training = train_openly(case)
    predicted = predict_openly(training, ONE_ROUND)
    models, tables = training.models(), party_tables(case)
    n_trees = training.trained.outline.shape.n_trees
    for replies in predicted.recorder.replies:
        for party, data in replies.items():
            partial = models[party].partial
            bins = models[party].bins.transform(tables[party])
            expected = [
                sum(len(own_questions(partial, tree, row)) for row in bins.T)
                for tree in range(n_trees)
            ]
            reply = decode(data, (RowsRouted,))
            assert isinstance(reply, RowsRouted)
            assert reply.n_bits.read(1, n_trees)[0].tolist() == expected
            assert len(reply.outcomes.data) == sum((bits + 7) // 8 for bits in expected)


@PREDICTION
@given(vertical_cases(max_rows=40), st.integers(1, MAX_SWEPT_LEVELS))
def test_a_sweep_tells_of_each_own_split_which_rows_can_reach_it_and_go_left(
    case: VerticalCase, n_levels: int
) -> None:
    training = train_openly(case)
    predicted = predict_openly(training, sweep_then(n_levels, ONE_ROUND))
    models, tables = training.models(), party_tables(case)
    for party, data in (predicted.recorder.replies or [{}])[0].items():
        reply = decode(data, (RowsSwept,))
        assert isinstance(reply, RowsSwept)
        words = np.frombuffer(reply.outcomes.data, np.uint8).reshape(1, -1, 8)  # under 64 rows
        bits = np.unpackbits(words[0], axis=1, bitorder="little")[:, : len(case.y)]
        bins = models[party].bins.transform(tables[party])
        assert bits.tolist() == swept_outcomes(models[party].partial, bins, n_levels)


def swept_outcomes(
    partial: PartialForest, bins: NDArray[np.uint8], n_levels: int
) -> list[list[int]]:
    """[own split of the first levels][row]: can the row reach it, and goes it left there?"""
    found = []
    for tree in range(partial.shape.n_trees):
        base = int(partial.shape.tree_start[tree])
        asked = [own_questions(partial, tree, row, 0, n_levels) for row in bins.T]
        for node in upper_nodes(partial, tree, n_levels):
            feature = int(partial.splits.feature[base + node])
            if feature >= 0:
                found.append(
                    [
                        int(node in asked[row] and goes_left(partial, base + node, int(code)))
                        for row, code in enumerate(bins[feature])
                    ]
                )
    return found


def upper_nodes(partial: PartialForest, tree: int, n_levels: int) -> list[int]:
    """The nodes of the first levels, level by level."""
    children, levels = partial.shape.children_of(tree), [[0]]
    for _ in range(n_levels - 1):
        inner = [int(children[node]) for node in levels[-1] if children[node] >= 0]
        levels.append([child for left in inner for child in (left, left + 1)])
    return [node for level in levels for node in level]


@PREDICTION
@given(vertical_cases(max_rows=40))
def test_one_round_is_one_exchange_and_a_lookahead_takes_no_more_than_it_must(
    case: VerticalCase,
) -> None:
    training = train_openly(case)
    depth = int(training.trained.outline.shape.depths().max())
    assert len(predict_openly(training, ONE_ROUND).log.exchanges) == min(1, depth)
    for lookahead in range(1, depth + 1):
        exchanges = predict_openly(training, lookahead).log.exchanges
        assert 0 < len(exchanges) <= -(-depth // lookahead)


def test_with_lookahead_one_a_party_says_one_bit_for_each_row_at_an_own_split() -> None:
    training = train_openly(sample_case())
    predicted = predict_openly(training, 1)
    n_bytes = 0
    for replies in predicted.recorder.replies:
        for data in replies.values():
            reply = decode(data, (RowsRouted,))
            assert isinstance(reply, RowsRouted)
            n_bytes += len(reply.outcomes.data)
    needed = sum(depths_of_leaves(training, predicted.leaf_of))
    n_splits = int((training.trained.outline.owner >= 0).sum())
    assert needed <= 8 * n_bytes < needed + 8 * n_splits  # trees start a byte


def test_rows_are_routed_block_by_block_where_all_at_once_would_need_too_much_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    columns = {"c0": rng.random(2500), "c1": rng.random(2500)}
    y = (columns["c0"] > columns["c1"]).astype(np.int64)
    case = VerticalCase(columns, y, None, {"n_estimators": 3, "max_depth": 4}, (1, 1))
    training = train_openly(case)
    whole = predict_openly(training, 2)
    monkeypatch.setattr(prediction, "BLOCK_BYTES", 0)
    in_blocks = predict_openly(training, 2)
    assert np.array_equal(whole.leaf_of, in_blocks.leaf_of)
    assert len(in_blocks.log.exchanges) == 3 * len(whole.log.exchanges)


def test_a_party_that_split_nothing_is_not_asked() -> None:
    case = sample_case(shares=(2, 0, 3, 0, 1), label_party=3)
    training = train_openly(case)
    predicted = predict_openly(training, ONE_ROUND)
    owners = {f"p{number}" for number in set(training.trained.outline.owner.tolist()) - {-1}}
    assert set(predicted.recorder.requests[0]) == owners
    assert not owners & {"p1", "p3"}


def chosen_plan(n_rows: int, network: Network, most_levels: int = MAX_CHOSEN_LOOKAHEAD) -> Plan:
    outline = train_openly(sample_case()).trained.outline
    return plan_for(network, OwnerRoutes.of(outline), n_rows, most_levels)


def test_a_slow_network_makes_for_one_exchange_and_a_narrow_one_for_one_level_at_a_time() -> None:
    depth = int(train_openly(sample_case()).trained.outline.shape.depths().max())
    assert depth > 3
    (far,) = chosen_plan(1000, Network(10.0, 1e9))
    assert far.n_levels == depth
    narrow = chosen_plan(100_000, Network(1e-6, 1e4))
    assert [stage.n_levels for stage in narrow] == [1] * depth


def test_with_cheap_bytes_the_first_levels_of_many_rows_are_swept_and_then_rows_leap() -> None:
    first, second, *_ = chosen_plan(10**9, Network(1e-4, 1e10))
    assert first.manner is Manner.SWEEP
    assert first.n_levels > 1
    assert second.manner is Manner.LEAP


def test_a_plan_settles_every_level_once() -> None:
    depth = int(train_openly(sample_case()).trained.outline.shape.depths().max())
    for latency in (1e-6, 1e-4, 1e-2, 1.0):
        for bytes_per_second in (1e4, 1e7, 1e10):
            plan = chosen_plan(5000, Network(latency, bytes_per_second))
            assert depth <= sum(stage.n_levels for stage in plan) < depth + LEAP


@pytest.mark.parametrize("most_levels", [1, 2, 3, 4])
def test_no_exchange_of_a_plan_settles_more_levels_than_it_may(most_levels: int) -> None:
    depth = int(train_openly(sample_case()).trained.outline.shape.depths().max())
    for latency in (1e-6, 1e-2, 10.0):
        for n_rows in (1, 10**9):
            plan = chosen_plan(n_rows, Network(latency, 1e10), most_levels)
            assert max(stage.n_levels for stage in plan) <= most_levels
            assert depth <= sum(stage.n_levels for stage in plan) < depth + LEAP


@PREDICTION
@given(vertical_cases(max_rows=40))
def test_a_leap_tells_two_bytes_for_each_row_of_the_own_splits_it_can_reach(
    case: VerticalCase,
) -> None:
    training = train_openly(case)
    predicted = predict_openly(training, leap_after())
    models, tables = training.models(), party_tables(case)
    for party, data in (predicted.recorder.replies or [{}])[0].items():
        reply = decode(data, (RowsLeapt,))
        assert isinstance(reply, RowsLeapt)
        bins = models[party].bins.transform(tables[party])
        said = np.frombuffer(reply.outcomes.data, "<u2").tolist()
        assert said == leapt_outcomes(models[party].partial, bins)


def leapt_outcomes(partial: PartialForest, bins: NDArray[np.uint8]) -> list[int]:
    """For each row and tree that splits: bit k is the k-th node of four full levels."""
    found = []
    for tree in range(partial.shape.n_trees):
        base, slots = int(partial.shape.tree_start[tree]), four_levels(partial, tree)
        for row in bins.T if slots[0] is not None else ():
            bits, asked = 0, own_questions(partial, tree, row, 0, LEAP)
            for slot, node in enumerate(slots):
                if node in asked:
                    code = int(row[partial.splits.feature[base + node]])
                    bits |= goes_left(partial, base + node, code) << slot
            found.append(bits)
    return found


def four_levels(partial: PartialForest, tree: int) -> list[int | None]:
    """The inner nodes of the first four levels in the places of a full tree, None without."""
    children = partial.shape.children_of(tree)
    slots: list[int | None] = [0 if children[0] >= 0 else None]
    for slot in range(7):
        node = slots[slot]
        for side in range(2):
            child = -1 if node is None else int(children[node]) + side
            slots.append(child if child >= 0 and children[child] >= 0 else None)
    return slots


@pytest.mark.parametrize(
    "pace", [CLASSICAL, 1, 2, ONE_ROUND, sweep_then(2, 1), leap_after(), Network(1, 1)]
)
def test_a_forest_of_single_leaves_needs_no_exchange(pace: Pace) -> None:
    training = train_openly(sample_case(y=np.zeros(150, np.int64)))
    predicted = predict_openly(training, pace)
    assert not predicted.log.exchanges
    assert not predicted.leaf_of.any()


def test_the_documents_have_the_contract_of_a_prediction() -> None:
    assert list_clauses(CONTRACT) in DOCUMENT.read_text()


def test_a_table_with_other_columns_is_refused_before_anything_is_sent() -> None:
    case = sample_case()
    training = train_openly(case)
    other = {name: column for name, column in case.columns.items() if name != "c2"}
    other["another"] = case.columns["c2"]
    with pytest.raises(FederationError, match="c2"):
        predict_openly(training, 1, other)


def test_parties_let_go_of_their_memory_as_soon_as_nobody_holds_them() -> None:
    """The rows of one prediction lie where those of the last one lay, not in fresh memory."""
    training = train_openly(sample_case())
    parties: list[Any] = [
        *training.parties.values(),
        *predicting_parties(training).values(),
    ]
    parties[-1].handle(LeapRows(0, len(training.case.y)))
    held = [weakref.ref(party) for party in parties]
    gc.disable()
    try:
        del parties, training
        assert [reference() for reference in held] == [None] * len(held)
    finally:
        gc.enable()
