"""Runs with encrypted labels over services: all parts of a run keep what the run promised."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import ConfigurationError, FederationError, MaskingError, PolicyRefusal
from fedforest.runtime.client.predictions import Predicted, predict_rows
from fedforest.runtime.disclosure.ledger_check import check_ledger, read_records
from fedforest.runtime.disclosure.ledger_summary import summarise
from fedforest.runtime.messages.orders import (
    CompleteModel,
    PredictVertical,
    StandingName,
    TrainVertical,
    Validation,
)
from fedforest.runtime.messages.results import ModelFile, Predictions, VerticalResult
from fedforest.runtime.party.spending import Budgets
from fedforest.tree.files.forests import decode_forest, decode_outline, decode_partial
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import POLICY
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.partly_shared import PARTIES, SHARE, make_pattern, vertical_order

ENCODED, ENCRYPTED, FURTHER = (bytes([number]) * 16 for number in (1, 2, 3))
DATA = dict.fromkeys(PARTIES, "people")


def order(**changes: Any) -> TrainVertical:
    parameters = ForestParameters(n_estimators=3, max_depth=3, max_bins=16)
    settings: dict[str, Any] = {
        "encrypts_labels": True,
        "align": False,
        "validation": None,
        "parameters": parameters,
    }
    return vertical_order(**{**settings, **changes})


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with local_federation(tmp_path / "federation", make_pattern(tmp_path / "pattern")) as found:
        yield found


def train(federation: LocalFederation, wanted: TrainVertical, run: bytes) -> VerticalResult:
    result = federation.ask(wanted, VerticalResult, run)
    assert isinstance(result, VerticalResult)
    return result


def predict(federation: LocalFederation, run: bytes, **wishes: Any) -> Predicted:
    user: Any = federation
    return predict_rows(user, PredictVertical(data=DATA, model=run.hex(), **wishes))


def set_rules(federation: LocalFederation, party: str, rules: str) -> None:
    (federation.homes[party] / "policy.toml").write_text(f"{POLICY}{rules}\n")


@pytest.mark.parametrize("data", ["people", "people_measured"])
def test_forest_scores_and_baselines_are_those_of_encoded_labels(
    federation: LocalFederation, data: str
) -> None:
    is_regression = data == "people_measured"
    settings: dict[str, Any] = {
        "data": dict.fromkeys(PARTIES, data),
        "validation": Validation(SHARE),
        "alone": True,
        "hard_votes": not is_regression,
        "parameters": ForestParameters(
            n_estimators=2,
            task="regression" if is_regression else "classification",
            max_depth=3,
            max_bins=16,
            criterion="squared_error" if is_regression else "gini",
        ),
    }
    encoded = train(federation, order(encrypts_labels=False, **settings), ENCODED)
    encrypted = train(federation, order(**settings), ENCRYPTED)
    assert encrypted.validation == encoded.validation
    assert encrypted.validation is not None
    assert list(encrypted.validation.alone) == list(PARTIES)
    assert set(encrypted.importances.values()) == {None}
    for party in PARTIES:
        files = [
            federation.homes[party] / "models" / f"{run.hex()}.share"
            for run in (ENCODED, ENCRYPTED)
        ]
        first, second = (decode_partial(file.read_bytes()) for file in files)
        assert first.partial.splits.feature.tobytes() == second.partial.splits.feature.tobytes()
        assert (second.outline is not None) == (party == PARTIES[0])
        assert len(list((federation.homes[party] / "models").glob("*.share"))) == 2
    [kept] = (federation.homes["coordinator"] / "models").glob(f"{ENCRYPTED.hex()}.*")
    assert not decode_outline(kept.read_bytes()).outline.has_leaves


def test_ledgers_name_what_left_and_no_party_gave_or_got_labels_in_any_part_of_a_run(
    tmp_path: Path,
) -> None:
    with local_federation(tmp_path / "f", make_pattern(tmp_path / "pattern")) as federation:
        federation.keep_ledgers()
        train(federation, order(validation=Validation(SHARE), alone=True), ENCRYPTED)
        predict(federation, ENCRYPTED)
    for party in PARTIES:
        told = {record.message for record in read_records(federation.homes[party])}
        assert not told & {"LabelsShared", "SplitsFound", "ColumnsWeighed"}
        assert ("LabelsEncrypted" in told) == (party == PARTIES[0])
        verdict = check_ledger(federation.homes[party])
        assert not verdict.damage
        attacks = {attack.name for attack in summarise(federation.homes[party])[0].attacks()}
        assert ("naming bin mates" in attacks) == (party != PARTIES[0])
        assert "reading labels" not in attacks


def test_predictions_come_sealed_and_their_asker_opens_them(federation: LocalFederation) -> None:
    train(federation, order(encrypts_labels=False), ENCODED)
    train(federation, order(), ENCRYPTED)
    for wishes in ({}, {"rows": [5, 2, 5]}, {"hard_votes": True}, {"lookahead": 1}):
        wanted = predict(federation, ENCODED, **wishes).values
        assert np.array_equal(predict(federation, ENCRYPTED, **wishes).values, wanted)
    leaves = predict(federation, ENCRYPTED, leaves=True).values
    assert np.array_equal(leaves, predict(federation, ENCODED, leaves=True).values)
    aligned = predict(federation, ENCRYPTED, align=True)
    assert aligned.alignment is not None
    assert len(aligned.values) == aligned.alignment.n_common
    asked = PredictVertical(data=DATA, model=ENCRYPTED.hex(), key=bytes(range(32)))
    told = federation.ask(asked, Predictions)
    assert isinstance(told, Predictions)
    assert not told.data
    with pytest.raises(ConfigurationError, match="sealed for a key"):
        federation.ask(PredictVertical(data=DATA, model=ENCRYPTED.hex()), Predictions)
    by_ids = msgspec.structs.replace(asked, ids=[["anybody"]], align=StandingName("none"))
    with pytest.raises(ConfigurationError, match="name rows by their numbers"):
        federation.ask(by_ids, Predictions)


def test_a_forest_grows_on_encrypted_and_becomes_whole_if_all_allow_it(
    federation: LocalFederation,
) -> None:
    for party in PARTIES:
        set_rules(federation, party, "complete_model = true")
    few, more = (replace(order().parameters, n_estimators=n) for n in (2, 4))
    train(federation, order(parameters=more, encrypts_labels=False, out_of_bag=True), ENCODED)
    first = train(federation, order(parameters=few, out_of_bag=True), ENCRYPTED)
    assert first.out_of_bag_curve is not None
    grown = order(parameters=more, continues=ENCRYPTED.hex(), out_of_bag=True)
    assert train(federation, grown, FURTHER).n_trees == 4
    files = [
        federation.ask(CompleteModel(model=run.hex()), ModelFile) for run in (ENCODED, FURTHER)
    ]
    encoded, encrypted = (decode_forest(file.file).forest for file in files)  # type: ignore[attr-defined] # as asked for
    assert encrypted.leaves.value.tobytes() == encoded.leaves.value.tobytes()
    assert encrypted.decrease.tobytes() == encoded.decrease.tobytes()
    set_rules(federation, PARTIES[0], "complete_model = false")
    with pytest.raises(PolicyRefusal, match="bank"):
        federation.ask(CompleteModel(model=FURTHER.hex()), ModelFile)


ENCRYPTED_ONLY = 'label_protection = "encrypted"\nlabel_columns = ["label"]'


def test_a_policy_demands_encryption_of_every_use_of_labels(federation: LocalFederation) -> None:
    set_rules(federation, PARTIES[0], ENCRYPTED_ONLY)
    for party in PARTIES[1:]:
        set_rules(federation, party, 'label_protection = "encrypted"\nlabel_columns = []')
    for number, epsilon in enumerate((None, 1.0)):
        changes = {"encrypts_labels": False, "label_epsilon": epsilon}
        with pytest.raises(PolicyRefusal, match=r"bank.*labels must be encrypted"):
            train(federation, order(**changes), bytes([7 + number]) * 16)
        assert not Budgets(federation.homes["bank"]).read("people", math.inf).spends
    assert train(federation, order(), ENCRYPTED).validation is None
    assert len(predict(federation, ENCRYPTED).values) > 100


def test_scores_of_encrypted_labels_leave_only_where_the_policy_says_so(
    federation: LocalFederation,
) -> None:
    """The scores of many runs tell labels, where the coordinator chooses the held-out rows."""
    scored = order(validation=Validation(SHARE), alone=True)
    set_rules(federation, PARTIES[0], ENCRYPTED_ONLY)
    with pytest.raises(PolicyRefusal, match="bank"):
        train(federation, scored, bytes([9]) * 16)
    set_rules(federation, PARTIES[0], ENCRYPTED_ONLY + "\nvalidation = true")
    assert train(federation, scored, ENCRYPTED).validation is not None


@pytest.mark.parametrize(
    "rules",
    [
        'label_protection = "randomized_response"\nlabel_columns = ["label"]',
        'epsilon_ceiling = 9.0\nlabel_columns = ["label"]',
    ],
)
def test_encryption_is_no_noise_to_a_policy_that_limits_epsilon(
    federation: LocalFederation, rules: str
) -> None:
    """The shape of trees tells which rows are alike, and no epsilon bounds that."""
    set_rules(federation, PARTIES[0], rules)
    with pytest.raises(PolicyRefusal, match="bank"):
        train(federation, order(), ENCRYPTED)


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_without_the_pin_of_another_refuses_before_a_label_has_left(
    tmp_path: Path, party: str
) -> None:
    pattern = make_pattern(tmp_path / "pattern")
    stranger = next(other for other in PARTIES if other != party)
    settings = pattern.parties[party].home / "party.toml"
    lines = [line for line in settings.read_text().splitlines() if not line.startswith(stranger)]
    settings.write_text("\n".join(lines))
    with local_federation(tmp_path / "federation", pattern) as federation:
        with pytest.raises(MaskingError, match=f"fedforest party trust {stranger}"):
            train(federation, order(), ENCRYPTED)
        assert not Budgets(federation.homes["bank"]).read("people", math.inf).spends


def test_a_party_without_the_extra_says_in_one_line_what_to_install(
    federation: LocalFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if ".homomorphic." in name or ".encrypted." in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rbcl", None)
    with pytest.raises(FederationError) as refused:
        train(federation, order(), ENCRYPTED)
    assert "fedforest[encrypted]" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_report_of_a_run_knows_every_message(federation: LocalFederation) -> None:
    train(federation, order(validation=Validation(SHARE), alone=True), ENCRYPTED)
    report = (
        federation.homes["coordinator"] / "runs" / ENCRYPTED.hex() / "leakage.json"
    ).read_text()
    for told in ("OfferCuts", "ChooseCuts", "JudgeChildren", "ScoreLeaves", "encrypt"):
        assert told in report, told
    assert "FindSplits" not in report
    assert msgspec.json.decode(report)
