"""Requests that their users signed are answered by parties that demand it: all kinds of them."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedforest.errors import PolicyRefusal
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.messages.orders import (
    AlignRows,
    AnyOrder,
    CompleteModel,
    DescribeTables,
    OptionChoice,
    PredictLinear,
    PredictVertical,
    StandingName,
    TrainLinear,
    Validation,
)
from fedforest.runtime.messages.party_requests import InPrediction
from fedforest.runtime.messages.results import (
    Alignment,
    HorizontalResult,
    LinearResult,
    ModelFile,
    Predictions,
    TablesDescribed,
    VerticalResult,
)
from fedforest.runtime.messages.signed_orders import sign_request
from tests.integration.local_federation import make_party
from tests.runtime.partly_shared import PARTIES, horizontal_order, make_pattern, vertical_order
from tests.runtime.service_recordings import kind_of
from tests.runtime.signing_users import SigningFederation, issue, signing_federation

TWO = PARTIES[:2]
PEOPLE = dict.fromkeys(TWO, "people")
SMALL = replace(vertical_order().parameters, n_estimators=2, max_depth=2)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[SigningFederation]:
    with signing_federation(tmp_path / "local", make_pattern(tmp_path / "pattern")) as federation:
        yield federation


def vertical(**changes: Any) -> AnyOrder:
    return vertical_order(**{"data": PEOPLE, "parameters": SMALL, **changes})


def test_signed_trainings_with_all_their_parts_are_answered(federation: SigningFederation) -> None:
    data = dict.fromkeys(TWO, "rows")
    masked = OptionChoice.of(Masked())
    orders: list[tuple[AnyOrder, type]] = [
        (vertical(alone=True), VerticalResult),
        (vertical(align=False, seed=None, validation=None), VerticalResult),
        (horizontal_order(data=data), HorizontalResult),
        (horizontal_order(data=data, aggregation=masked, alone=False), HorizontalResult),
        (
            TrainLinear(
                data=PEOPLE,
                label="label",
                label_party=TWO[0],
                is_regression=False,
                penalty=1.0,
                max_iter=2,
                tol=0.0,
            ),
            LinearResult,
        ),
    ]
    results = [federation.ask_signed(order, kind) for order, kind in orders]
    assert isinstance(results[0], VerticalResult)
    assert results[0].validation is not None
    assert results[0].validation.alone.keys() == set(TWO)
    linear = results[-1]
    assert isinstance(linear, LinearResult)
    told = federation.ask_signed(PredictLinear(data=PEOPLE, model=linear.model), Predictions)
    assert isinstance(told, Predictions)


def test_signed_predictions_and_exports_are_answered(federation: SigningFederation) -> None:
    trained = federation.ask_signed(vertical(), VerticalResult)
    assert isinstance(trained, VerticalResult)
    asked = PredictVertical(data=PEOPLE, model=trained.model)
    for order in (
        asked,
        msgspec.structs.replace(asked, rows=[3, 1, 3]),
        msgspec.structs.replace(asked, align=True),
        msgspec.structs.replace(asked, align="psi", lookahead=2),
    ):
        assert isinstance(federation.ask_signed(order, Predictions), Predictions)
    assert federation.ask_signed(DescribeTables(data=PEOPLE), TablesDescribed)
    with pytest.raises(PolicyRefusal, match="complete_model"):
        federation.ask_signed(CompleteModel(model=trained.model), ModelFile)
    for party in TWO:
        with (federation.homes[party] / "policy.toml").open("a") as file:
            file.write("complete_model = true\n")
    assert federation.ask_signed(CompleteModel(model=trained.model), ModelFile)


def test_signed_standing_alignments_are_made_extended_and_used(
    federation: SigningFederation,
) -> None:
    make = AlignRows(data=PEOPLE, method="psi", name="customers", days=3)
    assert federation.ask_signed(make, Alignment)
    extend = AlignRows(data=PEOPLE, method="psi", extends="customers")
    assert federation.ask_signed(extend, Alignment)
    use = vertical(align=StandingName("customers"), validation=Validation(0.25))
    assert isinstance(federation.ask_signed(use, VerticalResult), VerticalResult)
    more = federation.ask_signed(AlignRows(data=PEOPLE), Alignment)
    assert isinstance(more, Alignment)


def test_a_signed_training_goes_on_with_an_earlier_one(federation: SigningFederation) -> None:
    first = federation.ask_signed(vertical(), VerticalResult)
    assert isinstance(first, VerticalResult)
    longer = vertical(parameters=replace(SMALL, n_estimators=4), align=False, continues=first.model)
    result = federation.ask_signed(longer, VerticalResult)
    assert isinstance(result, VerticalResult)
    assert result.n_trees == 4


def test_a_party_that_restarts_in_a_prediction_answers_the_same_order_again(
    federation: SigningFederation,
) -> None:
    trained = federation.ask_signed(vertical(align=False), VerticalResult)
    assert isinstance(trained, VerticalResult)
    n_asked = 0

    def answer(data: bytes) -> bytes:
        nonlocal n_asked
        n_asked += kind_of(data) is InPrediction
        if n_asked == 2:
            federation.parties["shop"].close()
            federation.parties["shop"] = make_party(federation.homes["shop"])
        return federation.parties["shop"].answer(data)

    federation.hub.endpoints["shop"] = answer
    order = PredictVertical(data=PEOPLE, model=trained.model, lookahead=1)
    assert isinstance(federation.ask_signed(order, Predictions), Predictions)
    assert n_asked > 2


def test_users_who_sign_are_known_by_authority_or_pin_as_the_rules_say(
    federation: SigningFederation, caplog: pytest.LogCaptureFixture
) -> None:
    order, ben = DescribeTables(data=PEOPLE), issue(federation.pattern, "ben")
    federation.demand_proof("signed")
    caplog.set_level(logging.INFO, "fedforest")

    def levels() -> list[str]:
        fields = [vars(record).get("fedforest_fields", {}) for record in caplog.records]
        return [told["proof"] for told in fields if "proof" in told]

    federation.submit(sign_request(order, ben), TablesDescribed, "ben")
    assert levels() == ["signed"] * 2
    federation.submit(sign_request(order, federation.ann), TablesDescribed)
    assert levels()[2:] == ["pinned"] * 2
    federation.demand_proof("vouched")
    assert federation.ask(order, TablesDescribed, user="ben")
    assert levels()[4:] == ["vouched"] * 2
