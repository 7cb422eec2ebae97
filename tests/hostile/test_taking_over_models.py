"""The coordinator wants another model under the id of one, or under other rules than its own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedforest.errors import ModelFileError, PolicyRefusal, RemoteProtocolError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.asking import Message
from fedforest.protocol.vertical.prediction.messages import RouteRows
from fedforest.runtime.messages.envelope import derive_part
from fedforest.runtime.messages.orders import Validation
from fedforest.runtime.messages.party_requests import (
    TO_PARTY,
    BeginRun,
    CountRows,
    Done,
    DropModel,
    EndRun,
    GiveShare,
    WithdrawPart,
)
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.messages.roles import HorizontalRole, ScoringRole, VerticalRole
from fedforest.runtime.party.catalogue.entries import EntryFolder
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.trainings.origins import Origin
from fedforest.transport.codec import decode
from tests.hostile.lying_coordinator import (
    BANK,
    BIN,
    PARAMETERS,
    TERMS,
    PlayedPrediction,
    PlayedRun,
    forest,
    say,
    trained_federation,
)
from tests.integration.local_federation import LocalFederation, make_party
from tests.runtime.service_recordings import N_ROWS, RUN

OTHER = bytes([7]) * 16


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path) as federation:
        yield federation


def models_of(federation: LocalFederation) -> dict[str, bytes]:
    folder = federation.homes[BANK] / "models"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def train(federation: LocalFederation, run: bytes, **changes: Any) -> None:
    federation.ask(forest(**changes), VerticalResult, run)


def test_a_run_does_not_end_under_the_id_of_another(federation: LocalFederation) -> None:
    before = models_of(federation)
    attack = PlayedRun(federation, OTHER)
    attack.ask(BIN)
    for wanted in (RUN.hex(), "ab" * 16):
        with pytest.raises(RemoteProtocolError, match="a model has the id of its own run"):
            say(federation, EndRun(OTHER, wanted))
    assert models_of(federation) == before
    say(federation, EndRun(OTHER, None))  # it can still be given up


def test_an_id_is_not_used_again_where_records_of_runs_were_lost(
    federation: LocalFederation,
) -> None:
    before = models_of(federation)
    federation.parties[BANK].close()
    for path in sorted((federation.homes[BANK] / "runs").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    federation.parties[BANK] = make_party(federation.homes[BANK])
    with pytest.raises(RemoteProtocolError, match="is that of a model of another run"):
        PlayedRun(federation, RUN)
    assert models_of(federation) == before


def test_the_end_of_a_run_is_repeated_after_a_crash_and_changes_nothing(
    federation: LocalFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party dies between storing the model and deleting the run."""
    party = federation.parties[BANK]
    attack = PlayedRun(federation, OTHER, has_columns=False, label="label")
    attack.ask(BIN)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(party._store, "finish", die)
    with pytest.raises(KeyboardInterrupt):
        say(federation, EndRun(OTHER, OTHER.hex()))
    stored = models_of(federation)
    assert f"{OTHER.hex()}.share" in stored
    party.close()
    federation.parties[BANK] = make_party(federation.homes[BANK])
    for n_trees in (None, 3, None):  # other trees than before: the model stays
        done = decode(say(federation, EndRun(OTHER, OTHER.hex(), n_trees)), (Done,))
        assert done.classes is not None
        assert models_of(federation) == stored


def test_a_dropped_baseline_does_not_come_back(federation: LocalFederation) -> None:
    baseline, party = derive_part(OTHER, "alone, shop"), federation.parties[BANK]
    n_refused = 0

    def answer(data: bytes) -> bytes:
        nonlocal n_refused
        request = decode(data, TO_PARTY)
        if isinstance(request, EndRun) and request.run == baseline:
            with pytest.raises(RemoteProtocolError, match="has not ended"):
                say(federation, DropModel(baseline.hex()))
            n_refused += 1
        return party.answer(data)

    federation.hub.endpoints[BANK] = answer
    train(federation, OTHER, validation=Validation(), alone=True)
    before = models_of(federation)
    assert n_refused == 1
    assert not any(baseline.hex() in name for name in before)
    say(federation, BeginRun(baseline, VerticalRole(data="columns"), TERMS))
    say(federation, EndRun(baseline, baseline.hex()))
    assert models_of(federation) == before


def test_a_share_without_trees_is_not_kept(federation: LocalFederation) -> None:
    before = models_of(federation)
    attack = PlayedRun(federation, OTHER)
    attack.ask(BIN)
    with pytest.raises(RemoteProtocolError, match="no complete tree"):
        say(federation, EndRun(OTHER, OTHER.hex()))
    assert models_of(federation) == before


LATER: list[tuple[str, str]] = [
    ("use = false", "not for use"),
    ('askers = ["ann"]', "who asks"),
    ('hidden_columns = ["label"]', "is not for use"),
    ('hidden_columns = ["b"]', "is not for use"),
    ('label_protection = "randomized_response"', "labels must be protected"),
]


def copy_data_set(federation: LocalFederation) -> None:
    """The bank has the same table as a second data set, with looser rules."""
    entries = EntryFolder(federation.homes[BANK])
    entries.write("second", entries.read("columns"))
    entries.schema_path("second").write_bytes(entries.schema_path("columns").read_bytes())


def grow_under_another_data_set(federation: LocalFederation, **changes: Any) -> None:
    copy_data_set(federation)
    parameters = replace(PARAMETERS, n_estimators=12)
    data = {"bank": "second", "shop": "columns"}
    train(federation, OTHER, data=data, continues=RUN.hex(), parameters=parameters, **changes)


def set_rules(federation: LocalFederation, rule: str) -> None:
    (federation.homes[BANK] / "policy.toml").write_text(
        f"[data.columns]\n{rule}\n[data.second]\ncomplete_model = true\n"
    )


def test_a_warm_start_remembers_all_data_sets_and_labels(federation: LocalFederation) -> None:
    grow_under_another_data_set(federation)
    assert PartyModels(federation.homes[BANK] / "models").origins(OTHER.hex()) == (
        Origin(RUN.hex(), "columns", "label"),
        Origin(OTHER.hex(), "second", "label"),
    )


def test_a_warm_start_does_not_free_splits_from_the_rules_of_the_first_data_set(
    federation: LocalFederation,
) -> None:
    grow_under_another_data_set(federation)
    set_rules(federation, "complete_model = false")
    with pytest.raises(PolicyRefusal, match="complete_model"):
        say(federation, GiveShare(OTHER.hex(), "user"))
    set_rules(federation, "complete_model = true")
    say(federation, GiveShare(OTHER.hex(), "user"))


@pytest.mark.parametrize(("rule", "reason"), LATER)
def test_no_use_of_a_warm_start_passes_by_a_rule_of_the_first_data_set(
    federation: LocalFederation, rule: str, reason: str
) -> None:
    grow_under_another_data_set(federation)
    set_rules(federation, f"complete_model = true\n{rule}")
    with pytest.raises(PolicyRefusal, match=reason):
        say(federation, GiveShare(OTHER.hex(), "user"))
    prediction = PlayedPrediction(federation, model=OTHER)
    prediction._begin = msgspec.structs.replace(prediction._begin, data="second")
    with pytest.raises(PolicyRefusal, match=reason):
        prediction.ask(RouteRows(0, N_ROWS, 1))
    with pytest.raises(PolicyRefusal, match=reason):
        say(federation, CountRows(OTHER.hex(), "second", None, "user"))
    role = VerticalRole(data="second", continues=OTHER.hex())
    with pytest.raises(PolicyRefusal, match=reason):
        say(federation, BeginRun(bytes([8]) * 16, role, TERMS))


def test_a_warm_start_is_not_scored_against_the_rules_of_the_first_data_set(
    tmp_path: Path,
) -> None:
    with trained_federation(tmp_path, validation=Validation()) as federation:
        party = federation.parties[BANK]

        def answer(data: bytes) -> bytes:
            request = decode(data, TO_PARTY)
            if isinstance(request, BeginRun) and isinstance(request.role, ScoringRole):
                set_rules(federation, "use = false")
            return party.answer(data)

        federation.hub.endpoints[BANK] = answer
        with pytest.raises(PolicyRefusal, match="not for use"):
            grow_under_another_data_set(federation, validation=Validation())


def test_the_smallest_lookahead_of_all_data_sets_holds(federation: LocalFederation) -> None:
    grow_under_another_data_set(federation)
    set_rules(federation, "largest_lookahead = 1")
    prediction = PlayedPrediction(federation, model=OTHER)
    prediction._begin = msgspec.structs.replace(prediction._begin, data="second")
    with pytest.raises(PolicyRefusal, match="a lookahead above 1"):
        prediction.ask(RouteRows(0, N_ROWS, 2))
    done = decode(say(federation, CountRows(OTHER.hex(), "second", None, "user")), (Done,))
    assert done.largest_lookahead == 1


def test_a_warm_start_without_noise_does_not_let_noisy_labels_be_scored(tmp_path: Path) -> None:
    epsilon = float(RandomizedResponse(1.0).epsilon)
    with trained_federation(tmp_path, label_epsilon=epsilon) as federation:
        parameters = replace(PARAMETERS, n_estimators=12)
        train(federation, OTHER, continues=RUN.hex(), parameters=parameters)
        models = PartyModels(federation.homes[BANK] / "models")
        assert models.is_noisy(OTHER.hex())


def test_a_model_without_origins_is_not_used(federation: LocalFederation) -> None:
    (federation.homes[BANK] / "models" / f"{RUN.hex()}.origins").unlink()
    uses: list[Any] = [GiveShare(RUN.hex(), "user"), CountRows(RUN.hex(), "columns", None, "user")]
    for use in uses:
        with pytest.raises(ModelFileError, match=r"earlier development version.*train it anew"):
            say(federation, use)


NASTY_IDS = ["../x", "", "0" * 31, "0" * 33, "0" * 32 + "\n", "A" * 32]
NASTY_NAMES = ["../x", "a" * 500, "x\ny", "x\n", "x\x00", "\u202egnp", " "]


def with_id(name: str) -> list[Message]:
    return [
        BeginRun(OTHER, VerticalRole(data="columns", continues=name), TERMS),
        EndRun(OTHER, name),
        CountRows(name, "columns", None, "user"),
        DropModel(name),
        WithdrawPart(name),
        GiveShare(name, "user"),
    ]


def with_name(name: str) -> list[Message]:
    other = msgspec.structs.replace(TERMS, asker=name)
    return [
        BeginRun(OTHER, VerticalRole(data=name), TERMS),
        BeginRun(OTHER, VerticalRole(data="columns"), other),
        BeginRun(OTHER, HorizontalRole(data="rows", label="label", peers=(name,)), TERMS),
        CountRows(RUN.hex(), name, None, "user"),
        CountRows(RUN.hex(), "columns", None, name),
        GiveShare(RUN.hex(), name),
        WithdrawPart(RUN.hex(), name),
    ]


@pytest.mark.parametrize(
    "request_with_name",
    [
        *(wrong for name in NASTY_IDS for wrong in with_id(name)),
        *(wrong for name in NASTY_NAMES for wrong in with_name(name)),
        *(
            BeginRun(OTHER, VerticalRole(data="columns", label=name), TERMS)
            for name in ("x" * 257, "x\n", "x\x1b[2J", "\u202exyz")
        ),
    ],
    ids=repr,
)
def test_a_name_beyond_its_length_or_alphabet_is_no_message(
    names_federation: LocalFederation, request_with_name: Message
) -> None:
    with pytest.raises(RemoteProtocolError, match="a message is not a valid"):
        say(names_federation, request_with_name)


@pytest.fixture(scope="module")
def names_federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path_factory.mktemp("names")) as federation:
        yield federation
