"""Models as users see them: listed, withdrawn at every role for good, and deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedforest.errors import ConfigurationError, ModelFileError, TooFewParties
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.messages.orders import (
    AnyOrder,
    CompleteModel,
    DeleteModel,
    ListModels,
    PredictVertical,
    ShowModel,
    ShowRun,
    WatchRun,
    WithdrawModel,
)
from fedforest.runtime.messages.results import (
    HorizontalResult,
    ModelFile,
    ModelList,
    ModelState,
    Predictions,
    RunDetails,
    VerticalResult,
)
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import WAIT_SECONDS, LocalFederation, local_federation
from tests.integration.samples import COLUMNS, NAMES, divide, horizontal, vertical

RUN, SIDE_BY_SIDE = bytes([1]) * 16, bytes([2]) * 16
MODEL = RUN.hex()
PREDICT = PredictVertical(data=dict.fromkeys(NAMES[:2], COLUMNS), model=MODEL)
WITHDRAWN = "was withdrawn by user user"


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern) as federation:
        federation.ask(vertical(2, n_trees=2, max_depth=3), VerticalResult, RUN)
        yield federation


def ask(federation: LocalFederation, order: AnyOrder) -> list[ModelState]:
    found: Any = federation.ask(order, ModelList)
    models: list[ModelState] = found.models
    return models


def test_a_withdrawn_model_is_refused_for_every_use(federation: LocalFederation) -> None:
    federation.ask(PREDICT, Predictions)
    [state] = ask(federation, WithdrawModel(model=MODEL))
    assert (state.state, state.withdrawn_by, state.away) == ("withdrawn", "user user", [])
    continuing = msgspec.structs.replace(vertical(2), continues=MODEL)
    uses: list[tuple[AnyOrder, type]] = [
        (PREDICT, Predictions),
        (CompleteModel(model=MODEL), ModelFile),
        (WatchRun(run=MODEL), VerticalResult),
        (continuing, VerticalResult),
    ]
    for order, kind in uses:
        with pytest.raises(ModelFileError, match=WITHDRAWN):
            federation.ask(order, kind, bytes([3]) * 16)
    assert isinstance(federation.ask(ShowRun(run=MODEL), RunDetails), RunDetails)
    for name in NAMES[:2]:
        assert (federation.homes[name] / "models" / f"{MODEL}.withdrawn").exists()


def test_parties_refuse_a_coordinator_that_forgot_the_withdrawal(
    federation: LocalFederation,
) -> None:
    ask(federation, WithdrawModel(model=MODEL))
    (federation.homes["coordinator"] / "models" / f"{MODEL}.withdrawn").unlink()
    with pytest.raises(ModelFileError, match="as the coordinator says") as caught:
        federation.ask(PREDICT, Predictions)
    assert caught.value.party in NAMES[:2]


def test_a_party_that_was_away_hears_of_a_withdrawal_after_a_restart_of_the_coordinator(
    federation: LocalFederation,
) -> None:
    shop = federation.hub.endpoints.pop("shop")
    [state] = ask(federation, WithdrawModel(model=MODEL))
    assert state.away == ["shop"]
    federation.coordinator.close()
    federation.coordinator = CoordinatorService(
        federation.homes["coordinator"], federation.hub, wait_seconds=WAIT_SECONDS
    )
    federation.coordinator.start()
    assert ask(federation, ShowModel(model=MODEL))[0].away == ["shop"]
    federation.hub.endpoints["shop"] = shop
    federation.coordinator._register._pay()  # as its thread does every second
    assert ask(federation, ShowModel(model=MODEL))[0].away == []
    assert (federation.homes["shop"] / "models" / f"{MODEL}.withdrawn").exists()


def test_a_deleted_model_leaves_one_line_at_the_coordinator(federation: LocalFederation) -> None:
    federation.ask(horizontal(2), HorizontalResult, SIDE_BY_SIDE)
    home = federation.homes["coordinator"]
    forest = (home / "runs" / SIDE_BY_SIDE.hex() / "finished").read_bytes()
    assert len(forest) > 1000
    for run in (RUN, SIDE_BY_SIDE):
        ask(federation, DeleteModel(model=run.hex()))
        [state] = ask(federation, DeleteModel(model=run.hex()))  # may be repeated
        assert (state.state, state.deleted_by) == ("deleted", "user user")
        assert [path.name for path in (home / "models").glob(f"{run.hex()}.*")] == [
            f"{run.hex()}.withdrawn"
        ]
        with pytest.raises(ModelFileError, match=WITHDRAWN):
            federation.ask(WatchRun(run=run.hex()), HorizontalResult)
        assert isinstance(federation.ask(ShowRun(run=run.hex()), RunDetails), RunDetails)
    for path in home.rglob("*"):
        assert not path.is_file() or forest[-64:] not in path.read_bytes()
    assert [model.state for model in ask(federation, ListModels())] == ["deleted", "deleted"]
    # files of parties are their owners' matter
    assert (federation.homes["bank"] / "models" / f"{MODEL}.share").exists()


def test_a_run_without_a_result_has_no_model(federation: LocalFederation) -> None:
    federation.hub.endpoints.pop("shop")
    with pytest.raises(TooFewParties):
        federation.ask(vertical(2), VerticalResult, SIDE_BY_SIDE)
    assert [model.model for model in ask(federation, ListModels())] == [MODEL]
    with pytest.raises(ConfigurationError, match="has no model"):
        federation.ask(WithdrawModel(model=SIDE_BY_SIDE.hex()), ModelList)
