"""What a party answers, and what it refuses."""

from typing import Any

import numpy as np
import pytest

from fedforest.errors import ProtocolError, RemoteProtocolError
from fedforest.protocol.asking import Message
from fedforest.protocol.linear.coordinator import predict
from fedforest.protocol.linear.labels import BinaryLabels, Labels, NumericLabels
from fedforest.protocol.linear.messages import (
    REQUESTS,
    Measure,
    Propose,
    Proposed,
    RowsScored,
    ScoreRows,
    Settle,
    ShareWeights,
    StandardiseColumns,
)
from fedforest.protocol.linear.party import LinearParty
from fedforest.protocol.payloads import Curvatures, Residuals, RowWeights, to_bytes
from fedforest.runtime.driver import run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.in_process import InProcess
from fedforest.tree.table.frames import read_table
from tests.protocol.linear.federations import correlated, federation, numbers

X = correlated(20, 3)
NONE = to_bytes(np.zeros(0), "<f8")


def prepared_party(**parts: Any) -> LinearParty:
    party = LinearParty(read_table(X), **parts)
    party.handle(StandardiseColumns(1.0))
    return party


def propose(n_rows: int = 20, coefficients: memoryview = NONE) -> Propose:
    bend = Curvatures.of(np.ones(n_rows))
    return Propose(Residuals.of(np.arange(float(n_rows))), coefficients, bend)


@pytest.mark.parametrize(
    "request_out_of_place",
    [
        propose(),
        Settle(NONE),
        ScoreRows(),
        ShareWeights(),
        Measure(to_bytes(np.zeros(20), "<f8")),
    ],
)
def test_requests_out_of_place_are_refused(request_out_of_place: Message) -> None:
    with pytest.raises(RemoteProtocolError, match="coordinator"):
        LinearParty(read_table(X)).handle(request_out_of_place)


def test_a_direction_without_known_curvatures_is_refused() -> None:
    request = Propose(Residuals.of(np.ones(20)), NONE)
    with pytest.raises(RemoteProtocolError, match="before curvatures"):
        prepared_party().handle(request)


@pytest.mark.parametrize(
    "bad",
    [
        propose(n_rows=19),
        propose(coefficients=to_bytes(np.ones(1), "<f8")),
        Propose(Residuals.of(np.ones(20)), NONE, Curvatures.of(np.full(20, -1.0))),
        Propose(Residuals.of(np.full(20, np.nan)), NONE, Curvatures.of(np.ones(20))),
        Settle(to_bytes(np.ones(2), "<f8")),
        StandardiseColumns(np.inf),
        StandardiseColumns(1.0, RowWeights.of(np.ones(3))),
        Measure(to_bytes(np.zeros(19), "<f8")),
        Measure(to_bytes(np.full(20, np.inf), "<f8")),
    ],
)
def test_a_bad_request_is_refused_and_changes_nothing(bad: Message) -> None:
    labels = BinaryLabels(X[:, 0] > 0, np.ones(20))
    plain, tried = prepared_party(labels=labels), prepared_party(labels=labels)
    with pytest.raises(RemoteProtocolError):
        tried.handle(bad)
    expected, found = plain.handle(propose()), tried.handle(propose())
    assert isinstance(expected, Proposed)
    assert isinstance(found, Proposed)
    assert bytes(found.scores.data) == bytes(expected.scores.data)


def test_there_is_no_share_before_training_has_ended() -> None:
    with pytest.raises(ProtocolError, match="no model yet"):
        prepared_party().share()


@pytest.mark.parametrize(
    "labels",
    [
        BinaryLabels(X[:, 0] > 0, np.linspace(0.5, 2.0, 20), (1.0, 3.0)),
        NumericLabels(X[:, 0], np.linspace(0.5, 2.0, 20)),
    ],
)
def test_residuals_and_curvatures_are_the_derivatives_of_the_loss(labels: Labels) -> None:
    scores, small = X[:, 1], 1e-4
    fit = labels.measure(scores)
    for row in range(20):
        nudge = small * (np.arange(20) == row)
        up, down = labels.measure(scores + nudge), labels.measure(scores - nudge)
        assert (up.loss - down.loss) / (2 * small) == pytest.approx(fit.residuals[row], abs=1e-6)
        bend = (up.residuals[row] - down.residuals[row]) / (2 * small)
        assert bend == pytest.approx(fit.curvatures[row], abs=1e-6)


def test_hopeless_scores_have_a_finite_loss() -> None:
    labels = BinaryLabels(np.array([True, False]), np.ones(2))
    fit = labels.measure(np.array([-1e4, 1e4]))
    assert fit.loss == pytest.approx(2e4)
    assert fit.residuals.tolist() == [-1.0, 1.0]


def test_a_prediction_adds_the_parts_of_all_parties_to_the_intercept() -> None:
    model = federation({"a": X[:, :1], "b": X[:, 1:]}, numbers(X), penalty=1e-9)
    trained = model.train()
    rows = correlated(5, 3, seed=9)
    parts = {"a": rows[:, :1], "b": rows[:, 1:]}
    parties = {
        party: LinearParty(read_table(parts[party]), share=model.parties[party].share())
        for party in parts
    }
    endpoints = {party: make_endpoint(handler, REQUESTS) for party, handler in parties.items()}
    scores = run(predict(trained.holders, trained.intercept), InProcess(endpoints))
    replies = [handler.handle(ScoreRows()) for handler in parties.values()]
    partial = [reply.scores.read(5) for reply in replies if isinstance(reply, RowsScored)]
    np.testing.assert_allclose(scores, trained.intercept + partial[0] + partial[1])
    slopes = np.concatenate([model.parties[party].share().slopes() for party in parts])
    offsets = sum(model.parties[party].share().offset() for party in parts)
    np.testing.assert_allclose(scores, trained.intercept + offsets + rows @ slopes)
