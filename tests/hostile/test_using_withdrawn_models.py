"""The coordinator wants answers of a model that was withdrawn, or withdraws what it should not."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedforest.errors import FederationError, ModelFileError
from fedforest.protocol.asking import Message
from fedforest.protocol.vertical.prediction.messages import RouteRows
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.party_requests import (
    BeginRun,
    CountRows,
    DropModel,
    EndRun,
    GiveShare,
    WithdrawPart,
)
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.messages.roles import ScoringRole, VerticalRole
from fedforest.runtime.party.retention.model_folder import PartyModelFolder
from fedforest.runtime.recovery.model_folder import StoredModels
from tests.hostile.lying_coordinator import (
    BANK,
    PARAMETERS,
    TERMS,
    PlayedPrediction,
    forest,
    say,
    trained_federation,
)
from tests.integration.local_federation import LocalFederation, make_party
from tests.runtime.service_recordings import N_ROWS, RUN

MODEL, OTHER = RUN.hex(), bytes([7]) * 16
WITHDRAWN = "was withdrawn by party bank on 20"


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path) as federation:
        yield federation


def own_models(federation: LocalFederation) -> PartyModelFolder:
    return PartyModelFolder(federation.homes[BANK])


def files_of(federation: LocalFederation) -> dict[str, bytes]:
    folder = federation.homes[BANK] / "models"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_prediction_under_way_gets_no_further_answer(federation: LocalFederation) -> None:
    attack = PlayedPrediction(federation)
    attack.ask(RouteRows(0, N_ROWS, 1))
    own_models(federation).withdraw(MODEL)  # by a command, while the party runs
    with pytest.raises(ModelFileError, match=WITHDRAWN):
        attack.ask(RouteRows(0, N_ROWS, 1))
    with pytest.raises(ModelFileError, match=WITHDRAWN):
        PlayedPrediction(federation, 2).ask(RouteRows(0, N_ROWS, 1))


def uses() -> list[Message]:
    """Every request of a coordinator that would use the model or write it anew."""
    continuing = VerticalRole(data="columns", label="label", continues=MODEL)
    return [
        CountRows(MODEL, "columns", None, "user"),
        GiveShare(MODEL, "user"),
        BeginRun(OTHER, continuing, TERMS),
        BeginRun(OTHER, ScoringRole(data="columns", label="label", model=MODEL), TERMS),
    ]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_no_message_makes_a_withdrawn_model_usable_again(
    federation: LocalFederation, *, is_deleted: bool
) -> None:
    own = own_models(federation)
    own.delete(MODEL) if is_deleted else own.withdraw(MODEL)
    before = files_of(federation)
    attempts = [
        EndRun(RUN, MODEL),
        EndRun(RUN, None),
        EndRun(RUN, MODEL, 3),
        DropModel(MODEL),
        WithdrawPart(MODEL, "mallory"),
        WithdrawPart(MODEL, "mallory", asks_deletion=False),
        BeginRun(RUN, VerticalRole(data="columns", label="label"), TERMS),
    ]
    for restarts in (False, True):
        if restarts:
            federation.parties[BANK].close()
            federation.parties[BANK] = make_party(federation.homes[BANK])
        for attempt in attempts:
            try:
                say(federation, attempt)
            except FederationError:
                continue  # refused, which is as good
        for use in uses():
            with pytest.raises(FederationError, match=r"withdrawn|did not declare|not agreed on"):
                say(federation, use)
        assert files_of(federation) == before


def test_the_id_of_a_deleted_model_is_not_trained_again(federation: LocalFederation) -> None:
    own_models(federation).delete(MODEL)
    (federation.homes[BANK] / "runs" / MODEL / "finished").unlink()  # records of runs were lost
    federation.parties[BANK].close()
    federation.parties[BANK] = make_party(federation.homes[BANK])
    with pytest.raises(ModelFileError, match=WITHDRAWN):
        say(federation, BeginRun(RUN, VerticalRole(data="columns", label="label"), TERMS))


def test_a_coordinator_that_withdraws_stops_answers_and_deletes_nothing(
    federation: LocalFederation,
) -> None:
    """Which it could do anyway: it need not ask. The owner still has the model."""
    before = files_of(federation)
    say(federation, WithdrawPart(MODEL, "mallory", asks_deletion=True))
    with pytest.raises(ModelFileError, match="by user mallory, as the coordinator says"):
        say(federation, CountRows(MODEL, "columns", None, "user"))
    assert {name: files_of(federation)[name] for name in before} == before
    shown = own_models(federation).find(MODEL)
    assert shown.withdrawal is not None
    assert shown.withdrawal.deletion_asked_by == "user mallory, as the coordinator says"
    assert not shown.withdrawal.deleted_by


def test_withdrawals_of_models_that_are_not_here_leave_no_trace(
    federation: LocalFederation,
) -> None:
    before = files_of(federation)
    for number in range(100):
        say(federation, WithdrawPart(bytes([number] * 16).hex(), "mallory"))
    assert files_of(federation) == before


def test_a_model_is_not_withdrawn_before_its_run_ends(federation: LocalFederation) -> None:
    say(federation, BeginRun(OTHER, VerticalRole(data="columns", label="label"), TERMS))
    with pytest.raises(FederationError, match="has not ended"):
        say(federation, WithdrawPart(OTHER.hex(), "mallory"))


def longer(model: str, n_trees: int) -> TrainVertical:
    return forest(continues=model, parameters=replace(PARAMETERS, n_estimators=n_trees))


def test_a_training_that_continues_a_model_cannot_end_after_its_withdrawal(
    federation: LocalFederation,
) -> None:
    federation.ask(longer(MODEL, 12), VerticalResult, OTHER)
    assert own_models(federation).find(MODEL).continued_by == [OTHER.hex()]
    last = bytes([8]) * 16
    before = set(files_of(federation))

    def withdraw_at_the_end(data: bytes) -> bytes:
        if data.find(b"EndRun") >= 0:
            own_models(federation).withdraw(OTHER.hex())
        return federation.parties[BANK].answer(data)

    federation.hub.endpoints[BANK] = withdraw_at_the_end
    with pytest.raises(ModelFileError, match=WITHDRAWN):
        federation.ask(longer(OTHER.hex(), 14), VerticalResult, last)
    assert {name for name in files_of(federation) if name not in before} == {
        f"{OTHER.hex()}.withdrawn"
    }


def test_a_damaged_withdrawal_lets_nothing_through(tmp_path: Path) -> None:
    models = StoredModels(tmp_path)
    models.write(MODEL, b"model")
    models.withdraw(MODEL, "party bank")
    (tmp_path / f"{MODEL}.withdrawn").write_bytes(b"{")
    with pytest.raises(ModelFileError, match="cannot be used"):
        models.read(MODEL)


def test_the_first_withdrawal_stays_whoever_withdraws_later(tmp_path: Path) -> None:
    moments = iter(range(10))
    models = StoredModels(tmp_path, lambda: float(next(moments)))
    models.write(MODEL, b"model")
    first = models.withdraw(MODEL, "party bank")
    assert models.withdraw(MODEL, "user ann") == first
    asked = models.ask_deletion(MODEL, "user ann")
    assert (asked.by, asked.at, asked.deletion_asked_by) == ("party bank", 0.0, "user ann")
    gone = models.delete(MODEL, "party bank")
    assert (gone.deleted_by, gone.deleted_at) == ("party bank", 1.0)
    assert [path.name for path in tmp_path.iterdir()] == [f"{MODEL}.withdrawn"]
    assert models.delete(MODEL, "user ben") == gone
