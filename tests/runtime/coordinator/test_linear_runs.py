"""Linear models obey what parties' owners decided, and are in everybody's records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import ModelFileError, PolicyRefusal, ProtocolError
from fedforest.protocol.linear.messages import Measure, Measured, ScoreRows
from fedforest.runtime.disclosure.egress_ledger import Departure
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.orders import (
    CompleteModel,
    ListRuns,
    PredictLinear,
    PredictVertical,
    ShowRun,
    TrainLinear,
)
from fedforest.runtime.messages.results import (
    LinearResult,
    ModelFile,
    Predictions,
    RunDetails,
    RunList,
)
from fedforest.runtime.party.approval import RunAccountant
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.spending import Budgets, PredictionQuota
from fedforest.transport.codec import encode
from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, local_federation, make_party
from tests.runtime.ruled_federations import demand, ruled_federation
from tests.runtime.service_recordings import PLANTED_COLUMN, RUN, make_pattern

DATA = {"bank": "columns", "shop": "columns"}
OTHER_RUN = bytes(16)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    return make_pattern(tmp_path_factory.mktemp("pattern"))


@pytest.fixture
def federation(pattern: FederationFolder, tmp_path: Path) -> Iterator[LocalFederation]:
    with ruled_federation(tmp_path, pattern) as federation:
        yield federation


def linear(**changes: Any) -> TrainLinear:
    order = TrainLinear(
        data=DATA,
        label="label",
        label_party="bank",
        is_regression=False,
        penalty=1.0,
        max_iter=50,
        tol=1e-4,
    )
    return msgspec.structs.replace(order, **changes)


def train(federation: LocalFederation, order: TrainLinear, run: bytes = RUN) -> Any:
    return federation.ask(order, LinearResult, run)


def predict(federation: LocalFederation, data: dict[str, str] = DATA) -> Any:
    values: Any = federation.ask(PredictLinear(data=data, model=RUN.hex()), Predictions)
    return values.read()


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("use = false", "not for use"),
        ('askers = ["ann"]', "who asks"),
        ('protocols = ["vertical", "prediction"]', "not for linear use"),
        ('hidden_columns = ["label"]', "column 'label'"),
        ('label_protection = "randomized_response"', "RandomizedResponse"),
        ("epsilon_ceiling = 1000.0", "ceiling of epsilon"),
    ],
)
def test_a_linear_run_outside_the_policy_is_refused_with_the_rule(
    federation: LocalFederation, rule: str, reason: str
) -> None:
    demand(federation, rule)
    with pytest.raises(PolicyRefusal, match=reason) as caught:
        train(federation, linear())
    assert str(caught.value).startswith("party 'bank': its policy does not allow this run: ")
    assert not PartyModels(federation.homes["bank"] / "models").has(RUN.hex())
    listed: Any = federation.ask(ListRuns(), RunList)
    assert [(run.protocol, run.state) for run in listed.runs] == [("linear", "failed")]


@pytest.mark.parametrize(
    "rule",
    [
        'protocols = ["linear"]\naskers = ["user"]',
        "min_rows_per_leaf = 1000",  # there are no leaves
    ],
)
def test_a_linear_run_inside_the_policy_is_carried_out(
    federation: LocalFederation, rule: str
) -> None:
    demand(federation, rule)
    assert train(federation, linear(asker="ann")).model == RUN.hex()


def test_rules_about_labels_bind_their_owner_only(federation: LocalFederation) -> None:
    demand(federation, 'label_protection = "randomized_response"\nepsilon_ceiling = 1.0', "shop")
    assert train(federation, linear()).has_converged


def test_labels_are_paid_for_once_in_a_run_and_without_limit(federation: LocalFederation) -> None:
    train(federation, linear())
    ledger = Budgets(federation.homes["bank"]).read("columns", float("inf"))
    assert [spend.run for spend in ledger.spends] == [RUN.hex()]
    assert ledger.spent == float("inf")
    assert not (federation.homes["shop"] / "budgets").exists()


def test_measuring_is_refused_whatever_the_run_was_begun_as() -> None:
    accountant = RunAccountant(
        DataSetRules(label_protection="randomized_response"), lambda _: None, b""
    )
    with pytest.raises(PolicyRefusal, match="RandomizedResponse"):
        accountant.approve(Measure(memoryview(b"")))


def test_columns_that_are_hidden_are_not_used(federation: LocalFederation) -> None:
    demand(federation, f'hidden_columns = ["{PLANTED_COLUMN}"]')
    assert train(federation, linear()).columns_per_party == {"bank": 1, "shop": 2}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("use = false", "not for use"),
        ('askers = ["ann"]', "who asks"),
        ('protocols = ["linear"]', "not for prediction use"),
        (f'hidden_columns = ["{PLANTED_COLUMN}"]', "column .named in its log. is not for use"),
        ("prediction_rows_per_day = 59", "at most 59 rows a day"),
    ],
)
def test_a_prediction_outside_the_policy_is_refused(
    federation: LocalFederation, rule: str, reason: str
) -> None:
    train(federation, linear())
    demand(federation, rule)
    with pytest.raises(PolicyRefusal, match=reason) as caught:
        predict(federation)
    assert "party 'bank': its policy does not allow this prediction: " in str(caught.value)


def test_rows_of_predictions_are_counted_and_lookahead_is_none_of_their_rules(
    federation: LocalFederation,
) -> None:
    train(federation, linear())
    demand(federation, "largest_lookahead = 1\nprediction_rows_per_day = 60")
    assert predict(federation).shape == (60, 1)
    assert PredictionQuota(federation.homes["bank"]).count("user") == 60
    with pytest.raises(PolicyRefusal, match="60 rows a day"):
        predict(federation)


def test_a_training_cannot_be_asked_for_scores_that_policies_count(
    federation: LocalFederation,
) -> None:
    bank = federation.parties["bank"]
    spoken: list[bytes] = []

    def answer(data: bytes) -> bytes:
        reply = bank.answer(data)
        if not spoken:  # the run has just begun
            spoken.append(data)
            request = RunRequest(RUN, 1, memoryview(encode(ScoreRows())))
            with pytest.raises(ProtocolError, match="ShareWeights or StandardiseColumns"):
                bank.answer(encode(request))
        return reply

    federation.hub.endpoints["bank"] = answer
    assert train(federation, linear()).model == RUN.hex()
    assert spoken


def test_a_share_remembers_its_data_set_and_is_no_forest(federation: LocalFederation) -> None:
    train(federation, linear())
    models = PartyModels(federation.homes["bank"] / "models")
    assert [origin.data for origin in models.origins(RUN.hex())] == ["columns"]
    assert not models.drop_baseline(RUN.hex())
    with pytest.raises(ModelFileError):
        federation.ask(CompleteModel(model=RUN.hex()), ModelFile)
    with pytest.raises(ModelFileError):
        federation.ask(PredictVertical(data=DATA, model=RUN.hex()), Predictions)


def test_the_history_tells_of_a_linear_run_and_who_learned_what(
    federation: LocalFederation,
) -> None:
    result = train(federation, linear(name="baseline"))
    details: Any = federation.ask(ShowRun(run=RUN.hex()), RunDetails)
    assert (details.state.protocol, details.state.state) == ("linear", "finished")
    assert details.state.name == "baseline"
    assert details.order["label_party"] == "bank"
    assert (details.model, details.n_rows, details.n_trees) == (RUN.hex(), 60, None)
    leakage = details.leakage
    assert leakage["protocol"] == "linear"
    assert leakage["figures"]["steps"] == result.n_iter
    assert leakage["figures"]["columns"] == 4
    assert leakage["figures"]["label_epsilon_spent"] is None
    assert not any("not declared" in entry["reveals"] for entry in leakage["learned"])
    assert {attack["name"] for attack in leakage["attacks"]} == {"reading labels off residuals"}


def test_every_message_of_a_linear_run_and_prediction_is_in_the_ledger(
    pattern: FederationFolder, tmp_path: Path
) -> None:
    noted: list[Departure] = []

    class Listening:
        def record(self, departure: Departure) -> None:
            noted.append(departure)

        def sync(self) -> None: ...

        def last_sequence(self, run: str) -> int:
            return max((one.sequence for one in noted if one.run == run), default=0)

    with local_federation(tmp_path, pattern) as federation:
        bank = federation.parties["bank"]
        bank._ledger = bank._predictions.ledger = Listening()
        result = train(federation, linear())
        predict(federation)
    names = [departure.message for departure in noted]
    assert names.count("Proposed") == result.n_iter
    assert {"ColumnsStandardised", "Measured", "Accepted", "RowsScored"} <= set(names)
    measured = next(one for one in noted if one.message == "Measured")
    assert measured.reveals == Measured.reveals
    assert all(one.reveals for one in noted)


def test_a_party_that_restarts_predicts_the_same_and_says_its_classes_again(
    federation: LocalFederation,
) -> None:
    result = train(federation, linear())
    before = predict(federation)
    federation.parties["bank"].close()
    federation.parties["bank"] = make_party(federation.homes["bank"])
    federation.hub.endpoints["bank"] = federation.parties["bank"].answer
    assert np.array_equal(predict(federation), before)
    assert PartyModels(federation.homes["bank"] / "models").classes(RUN.hex()) == result.classes
