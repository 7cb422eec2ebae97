"""Prediction over parties, against the leaf sets of the paper."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fedforest.errors import FederationError
from fedforest.protocol.vertical import prediction
from fedforest.protocol.vertical.prediction import Network, choose_lookahead
from fedforest.protocol.vertical.prediction_messages import RowsRouted, RowsStepped
from fedforest.transport.codec import decode
from tests.protocol.vertical.cases import VerticalCase, sample_case, vertical_cases
from tests.protocol.vertical.conversations import (
    ONE_ROUND,
    OpenTraining,
    depths_of_leaves,
    party_tables,
    predict_openly,
    train_openly,
)
from tests.reference.leaf_sets import intersect, own_questions

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
    for lookahead in (0, *range(1, depth + 2), ONE_ROUND):
        assert predict_openly(training, lookahead).leaf_of.tolist() == expected, lookahead


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
            reply = decode(data, (RowsStepped,))
            assert isinstance(reply, RowsStepped)
            n_bytes += len(reply.bits.data)
    needed = sum(depths_of_leaves(training, predicted.leaf_of))
    n_splits = int((training.trained.outline.owner >= 0).sum())
    assert needed <= 8 * n_bytes < needed + 8 * n_splits  # every node starts a byte


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


def test_a_slow_network_makes_for_one_round_and_a_narrow_one_for_small_steps() -> None:
    outline = train_openly(sample_case()).trained.outline
    depth = int(outline.shape.depths().max())
    far = choose_lookahead(outline, 1000, 3, Network(10.0, 1e9))
    narrow = choose_lookahead(outline, 100_000, 3, Network(1e-6, 1e4))
    assert far == depth
    assert narrow < depth


@pytest.mark.parametrize("lookahead", [0, 1, 2, ONE_ROUND])
def test_a_forest_of_single_leaves_needs_no_exchange(lookahead: int) -> None:
    training = train_openly(sample_case(y=np.zeros(150, np.int64)))
    predicted = predict_openly(training, lookahead)
    assert not predicted.log.exchanges
    assert not predicted.leaf_of.any()


def test_a_table_with_other_columns_is_refused_before_anything_is_sent() -> None:
    case = sample_case()
    training = train_openly(case)
    other = {name: column for name, column in case.columns.items() if name != "c2"}
    other["another"] = case.columns["c2"]
    with pytest.raises(FederationError, match="c2"):
        predict_openly(training, 1, other)
