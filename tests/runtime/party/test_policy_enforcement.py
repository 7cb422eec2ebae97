"""Every rule of a policy, refused at the party's service whatever the coordinator declares."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import PolicyRefusal, ProtocolError, RemoteProtocolError, StorageError
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.messages.orders import (
    ListRuns,
    OptionChoice,
    PredictVertical,
    ResumeRun,
    TrainHorizontal,
    TrainVertical,
    Validation,
)
from fedforest.runtime.messages.results import (
    HorizontalResult,
    Predictions,
    RunList,
    VerticalResult,
)
from fedforest.runtime.party.approval import ModelUse, check_origins
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.spending import Budgets, PredictionQuota, tell_epsilon
from fedforest.runtime.trainings.origins import Origin
from fedforest.runtime.trainings.registry import training_of
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, make_party
from tests.integration.processes import result_type
from tests.runtime.disks import disk_of
from tests.runtime.ruled_federations import demand, ruled_federation
from tests.runtime.service_recordings import PLANTED_COLUMN, RUN, make_pattern

AnyTraining = TrainVertical | TrainHorizontal
OTHER_RUN = bytes(16)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> FederationFolder:
    return make_pattern(tmp_path_factory.mktemp("pattern"))


@pytest.fixture
def federation(pattern: FederationFolder, tmp_path: Path) -> Iterator[LocalFederation]:
    with ruled_federation(tmp_path, pattern) as federation:
        yield federation


def vertical(*, leaf: float = 5, **changes: Any) -> TrainVertical:
    order = TrainVertical(
        data={"bank": "columns", "shop": "columns"},
        label="label",
        label_party="bank",
        parameters=ForestParameters(n_estimators=2, max_depth=4, min_samples_leaf=leaf),
        seed=1,
    )
    return msgspec.structs.replace(order, **changes)


def horizontal(*, leaf: int = 5, **changes: Any) -> TrainHorizontal:
    order = TrainHorizontal(
        data={"bank": "rows", "shop": "rows"},
        label="label",
        parameters=ForestParameters(
            n_estimators=1, max_depth=2, min_samples_leaf=leaf, bootstrap=False
        ),
        seed=1,
    )
    return msgspec.structs.replace(order, **changes)


def train(federation: LocalFederation, order: AnyTraining, run: bytes = RUN) -> Any:
    return federation.ask(order, result_type(order), run)


def refused(federation: LocalFederation, order: AnyTraining, reason: str) -> None:
    """The run fails with this reason, and the party that refused keeps nothing of it."""
    with pytest.raises(PolicyRefusal, match=reason) as caught:
        train(federation, order)
    assert str(caught.value).startswith("party 'bank': its policy does not allow this run: ")
    assert PLANTED_COLUMN not in str(caught.value)


NUMBERS = vertical(  # about another column than the label
    label="b",
    parameters=ForestParameters(
        task="regression", criterion="squared_error", n_estimators=2, min_samples_leaf=5
    ),
)
LABEL_EPSILON: dict[str, Any] = {"label_epsilon": 2.0}
MASKED: dict[str, Any] = {"aggregation": OptionChoice.of(Masked())}
PER_TREE: dict[str, Any] = {**MASKED, "participation": 0.5}
PER_STEP: dict[str, Any] = {**PER_TREE, "participation_scope": "step"}
LOCAL: dict[str, Any] = {"privacy": OptionChoice.of(LocalDP(keep=0.9))}


def private(noise: LocalDP | GlobalDP) -> TrainHorizontal:
    return horizontal(privacy=OptionChoice.of(noise))


GLOBAL: dict[str, Any] = {"privacy": OptionChoice.of(GlobalDP(epsilon_query=0.5))}


@pytest.mark.parametrize(
    ("rule", "asked", "allowed", "reason"),
    [
        ("use = false", vertical(), None, "not for use"),
        ('askers = ["ann"]', vertical(), None, "who asks"),
        ('protocols = ["horizontal"]', vertical(), horizontal(), "not for vertical use"),
        ('protocols = ["vertical"]', horizontal(), vertical(), "not for horizontal use"),
        ('hidden_columns = ["label"]', vertical(), NUMBERS, "column 'label'"),
        ('columns = ["b"]', vertical(), NUMBERS, "column 'label'"),
        ("", vertical(leaf=4), vertical(), "at least 5 rows"),
        ("", vertical(leaf=0.05), vertical(leaf=0.1), "at least 5 rows"),
        ("", horizontal(leaf=1), horizontal(), "at least 5 rows"),
        (
            'label_protection = "randomized_response"',
            vertical(),
            vertical(**LABEL_EPSILON),
            "RandomizedResponse",
        ),
        (
            "largest_label_epsilon = 1.5",
            vertical(**LABEL_EPSILON),
            vertical(label_epsilon=1.0),
            "at most 1.5",
        ),
        (
            'aggregations = ["masked", "shamir"]',
            horizontal(),
            horizontal(**MASKED),
            "by: masked, shamir",
        ),
        (
            "least_participants = 2",
            horizontal(),
            horizontal(min_participants=2),
            r"at least 2 parties .*\(min_participants=2\)",
        ),
        ("least_participants = 3", horizontal(**MASKED), None, "at least 3 parties"),
        ("least_participants = 2", horizontal(min_participants=1), horizontal(**MASKED), "least 2"),
        ("", horizontal(**PER_STEP), horizontal(**PER_TREE), "same for each: tree, run"),
        ('participation_scopes = ["step"]', horizontal(**PER_TREE), None, "same for each: step"),
        (
            'participation_scopes = ["run"]',
            horizontal(**PER_TREE),
            horizontal(**{**PER_STEP, "aggregation": None}),  # plain sums keep nobody apart
            "same for each: run",
        ),
        ('noise = ["local"]', horizontal(**GLOBAL), horizontal(**LOCAL), "one of: local"),
        ("epsilon_ceiling = 3.0", vertical(), vertical(**LABEL_EPSILON), "ceiling of epsilon"),
        ("epsilon_ceiling = 3.0", horizontal(), None, "ceiling of epsilon"),
        (
            'aggregations = ["masked"]',
            horizontal(**MASKED, validation=Validation()),
            horizontal(**MASKED),
            "scores over its rows alone",
        ),
        (
            "largest_label_epsilon = 1.5",
            horizontal(**GLOBAL),  # 2 candidates in 2 levels, 0.5 each
            horizontal(privacy=OptionChoice.of(GlobalDP(epsilon_query=0.25))),
            "at most 1.5",
        ),
        *(
            (f"{rule} = 1.5", private(kind(epsilon=1.6)), private(kind(epsilon=1.5)), reason)
            for kind in (LocalDP, GlobalDP)
            for rule, reason in (
                ("largest_label_epsilon", "at most 1.5"),
                ("epsilon_ceiling", "ceiling of epsilon"),
            )
        ),
        ("alignment = false", vertical(align=True), vertical(), "alignment"),
        ("validation = false", vertical(validation=Validation()), vertical(), "validation"),
        ("alone = false", vertical(validation=Validation(), alone=True), vertical(), "alone"),
    ],
)
def test_a_run_outside_the_policy_is_refused_with_the_rule_and_one_inside_is_not(
    federation: LocalFederation,
    rule: str,
    asked: AnyTraining,
    allowed: AnyTraining | None,
    reason: str,
) -> None:
    demand(federation, rule)
    refused(federation, asked, reason)
    if allowed is not None:
        assert train(federation, allowed, OTHER_RUN).model == OTHER_RUN.hex()


@pytest.mark.parametrize(
    ("asked", "declared", "reason"),
    [
        (vertical(leaf=1), vertical(), "leaves are to be of another size"),
        (vertical(), vertical(label_epsilon=1.0), "labels are asked for in another protection"),
        (vertical(**LABEL_EPSILON), vertical(label_epsilon=1.0), "in another protection"),
        (vertical(out_of_bag=True), vertical(), "rows that trees leave out are to be told about"),
        (horizontal(**GLOBAL), horizontal(**LOCAL), "the noise is not the one declared"),
        (horizontal(), horizontal(**GLOBAL), "trees may be begun anew more often than declared"),
    ],
)
def test_a_coordinator_that_declares_something_else_than_it_does_is_refused_when_it_does_it(
    federation: LocalFederation,
    monkeypatch: pytest.MonkeyPatch,
    asked: AnyTraining,
    declared: AnyTraining,
    reason: str,
) -> None:
    training = training_of(asked)
    honest = training.terms

    def declare(order: AnyTraining) -> Any:
        return msgspec.structs.replace(honest(declared), asker=order.asker)

    monkeypatch.setattr(training, "terms", declare)
    with pytest.raises(RemoteProtocolError, match=reason):
        train(federation, asked)


def test_a_coordinator_that_draws_single_parties_although_it_declared_blocks_is_refused(
    federation: LocalFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = training_of(horizontal(**PER_STEP))
    honest = training.terms

    def declare(order: AnyTraining) -> Any:
        return msgspec.structs.replace(honest(order), scope="tree")

    monkeypatch.setattr(training, "terms", declare)
    with pytest.raises(ProtocolError, match="a block has fewer than 2 parties with rows"):
        train(federation, horizontal(**PER_STEP))


def test_the_coordinator_says_who_asks_whatever_the_user_writes(
    federation: LocalFederation,
) -> None:
    demand(federation, 'askers = ["user"]')  # who gives the orders of these tests
    assert train(federation, vertical(asker="ann")).model == RUN.hex()


def test_a_refused_run_leaves_nothing_at_the_party_and_is_failed_at_the_coordinator(
    federation: LocalFederation,
) -> None:
    refused(federation, vertical(leaf=1), "at least 5 rows")
    assert list((federation.homes["bank"] / "runs").iterdir()) == []
    listed: Any = federation.ask(ListRuns(), RunList)
    assert [(run.run, run.state) for run in listed.runs] == [(RUN.hex(), "failed")]


def test_a_run_that_will_be_refused_is_refused_before_ids_are_hashed(
    federation: LocalFederation,
) -> None:
    refused(federation, vertical(leaf=1, align=True), "at least 5 rows")
    assert list((federation.homes["bank"] / "runs").iterdir()) == []


def test_a_refused_run_can_be_resumed_once_the_owner_allows_it(federation: LocalFederation) -> None:
    refused(federation, vertical(leaf=1), "at least 5 rows")
    for party in federation.parties:
        demand(federation, "min_rows_per_leaf = 1", party)
    result: Any = federation.ask(ResumeRun(run=RUN.hex()), VerticalResult)
    assert result.model == RUN.hex()


def test_what_a_run_was_begun_under_holds_until_it_ends(federation: LocalFederation) -> None:
    whole: Any = train(federation, vertical(), OTHER_RUN)
    n_asked = 0

    def answer(data: bytes) -> bytes:
        nonlocal n_asked
        n_asked += 1
        if n_asked == 5:  # in the middle of a run the owner changes everything, and restarts
            demand(federation, f'use = false\nhidden_columns = ["{PLANTED_COLUMN}"]')
            federation.parties["bank"].close()
            federation.parties["bank"] = make_party(federation.homes["bank"])
        return federation.parties["bank"].answer(data)

    federation.hub.endpoints["bank"] = answer
    result: Any = train(federation, vertical())
    assert n_asked > 5
    assert msgspec.structs.replace(result, model=whole.model) == whole
    refused_later = bytes([1]) * 16
    with pytest.raises(PolicyRefusal, match="not for use"):
        train(federation, vertical(), refused_later)


def test_columns_that_are_hidden_are_not_used_in_training(federation: LocalFederation) -> None:
    demand(federation, f'hidden_columns = ["{PLANTED_COLUMN}"]')
    assert train(federation, vertical()).columns_per_party == {"bank": 1, "shop": 2}
    demand(federation, f'columns = ["{PLANTED_COLUMN}", "label"]')
    trained = train(federation, vertical(), OTHER_RUN)
    assert trained.columns_per_party == {"bank": 1, "shop": 2}


@pytest.mark.parametrize(
    ("order", "ceiling"),
    [
        (vertical(**LABEL_EPSILON), 3.0),  # twice 2
        (horizontal(**GLOBAL), 2.5),  # 2 candidates in 2 levels, 0.5 each: 2, twice
    ],
)
def test_a_ceiling_of_epsilon_is_kept_over_runs_and_restarts(
    federation: LocalFederation, order: AnyTraining, ceiling: float
) -> None:
    demand(federation, f"epsilon_ceiling = {ceiling}")
    assert train(federation, order, OTHER_RUN).model == OTHER_RUN.hex()
    federation.parties["bank"].close()
    federation.parties["bank"] = make_party(federation.homes["bank"])
    federation.hub.endpoints["bank"] = federation.parties["bank"].answer
    refused(federation, order, "ceiling of epsilon")
    ledger = Budgets(federation.homes["bank"]).read(order.data["bank"], ceiling)
    assert [spend.run for spend in ledger.spends] == [OTHER_RUN.hex()]
    assert ledger.spent == pytest.approx(2.0)
    told = tell_epsilon(federation.homes["bank"], OTHER_RUN.hex())[order.data["bank"]]
    assert told == {"spent": pytest.approx(2.0), "left": pytest.approx(ceiling - 2.0)}
    assert tell_epsilon(federation.homes["bank"], RUN.hex()) == {}


def test_runs_from_the_same_permanent_responses_share_one_cap(federation: LocalFederation) -> None:
    order = horizontal(**LOCAL)
    train(federation, order, OTHER_RUN)
    spent = Budgets(federation.homes["bank"]).read("rows", float("inf")).spent
    demand(federation, f"epsilon_ceiling = {2 * spent}")
    train(federation, order)
    assert Budgets(federation.homes["bank"]).read("rows", float("inf")).spent <= 2 * spent


def predict(federation: LocalFederation, **changes: Any) -> Any:
    order = PredictVertical(data={"bank": "columns", "shop": "columns"}, model=RUN.hex())
    values: Any = federation.ask(msgspec.structs.replace(order, **changes), Predictions)
    return values.read()


@pytest.mark.parametrize(
    ("rule", "changes", "reason"),
    [
        ("use = false", {}, "not for use"),
        ('askers = ["ann"]', {}, "who asks"),
        ('askers = ["ann"]', {"rows": [0]}, "who asks"),
        ('protocols = ["vertical"]', {}, "not for prediction use"),
        (f'hidden_columns = ["{PLANTED_COLUMN}"]', {}, "column .named in its log. is not for use"),
        ("largest_lookahead = 1", {"lookahead": 2}, "a lookahead above 1"),
        ("prediction_rows_per_day = 59", {}, "at most 59 rows a day for each asker"),
        ("prediction_rows_per_day_total = 59", {}, "at most 59 rows a day of all askers together"),
        ("prediction_rows_per_day = 2", {"rows": [1, 2, 3]}, "at most 2 rows a day"),
    ],
)
def test_a_prediction_outside_the_policy_is_refused(
    federation: LocalFederation, rule: str, changes: dict[str, Any], reason: str
) -> None:
    train(federation, vertical())
    demand(federation, rule)
    with pytest.raises(PolicyRefusal, match=reason) as caught:
        predict(federation, **changes)
    assert "party 'bank': its policy does not allow this prediction: " in str(caught.value)
    assert PLANTED_COLUMN not in str(caught.value)


@pytest.mark.parametrize("largest", [1, 2, 3, 7])
def test_a_coordinator_that_may_choose_keeps_to_the_largest_lookahead(
    federation: LocalFederation, largest: int
) -> None:
    train(federation, vertical())
    expected = predict(federation)
    demand(federation, f"largest_lookahead = {largest}")
    assert np.array_equal(predict(federation), expected)
    assert np.array_equal(predict(federation, lookahead=largest), expected)


def test_rows_of_predictions_are_counted_by_asker_and_day(federation: LocalFederation) -> None:
    train(federation, vertical())
    demand(federation, "prediction_rows_per_day = 100")
    assert predict(federation).shape == (60, 2)
    assert predict(federation, rows=list(range(40))).shape == (40, 2)
    with pytest.raises(PolicyRefusal, match="100 rows a day"):
        predict(federation, rows=[0])
    home = federation.homes["bank"]
    assert PredictionQuota(home).count("user") == 100
    assert PredictionQuota(home).count("ann") == 0
    assert PredictionQuota(home, day=lambda: "2999-01-01").count("user") == 0


def test_a_full_disk_in_a_prediction_says_to_make_room_and_ask_again(
    federation: LocalFederation,
) -> None:
    train(federation, vertical())
    with disk_of(8), pytest.raises(StorageError) as caught:
        predict(federation)
    told = str(caught.value)
    assert "a file (named in its log) cannot be written: no space is left on its disk" in told
    assert "make room there; then go on with a paused run" in told
    assert "ask again for anything else, such as a prediction" in told
    assert str(federation.homes["bank"]) not in told
    assert predict(federation).shape == (60, 2)


@pytest.mark.parametrize(
    "damage", [lambda p: p.write_text("{"), lambda p: p.write_text('{"spends": 3}')]
)
def test_a_damaged_ledger_is_no_permission(
    federation: LocalFederation, damage: Callable[[Path], object]
) -> None:
    train(federation, vertical(**LABEL_EPSILON), OTHER_RUN)
    [ledger] = (federation.homes["bank"] / "budgets").iterdir()
    damage(ledger)
    with pytest.raises(Exception, match=r"see its log|ledger"):
        train(federation, vertical(**LABEL_EPSILON))


def test_splits_leave_for_a_complete_model_only_where_the_data_set_allows_it(
    federation: LocalFederation,
) -> None:
    train(federation, vertical())
    home = federation.homes["bank"]
    origins = PartyModels(home / "models").origins(RUN.hex())
    assert origins == (Origin(RUN.hex(), "columns", "label"),)
    export = ModelUse("user", "vertical", "export")
    with pytest.raises(PolicyRefusal, match="complete_model"):
        check_origins(PolicyFile(home), origins, (), export)
    (home / "policy.toml").write_text("[data.columns]\ncomplete_model = true\n")
    check_origins(PolicyFile(home), origins, (), export)
    both = (*origins, Origin(OTHER_RUN.hex(), "rows"))
    with pytest.raises(PolicyRefusal, match="this export: a complete model"):
        check_origins(PolicyFile(home), both, (), export)


def test_a_masked_run_is_what_it_is_without_a_policy(federation: LocalFederation) -> None:
    result: HorizontalResult = train(federation, horizontal(**MASKED))
    assert result.n_rows == 60
