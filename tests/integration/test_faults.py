"""Parties that freeze or stay away, damaged journals, full disks: named, and nothing is lost."""

import json
import resource
import signal
import time

import msgspec
import numpy as np
import pytest

from fedforest import VerticalForestClassifier
from fedforest.errors import (
    ConfigurationError,
    DamagedJournalError,
    PartyLost,
    StorageError,
)
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.runtime.messages.orders import (
    CancelRun,
    EndRunEarly,
    PredictVertical,
    ResumeRun,
    WatchRun,
)
from fedforest.runtime.messages.results import (
    Predictions,
    RunList,
    VerticalResult,
)
from tests.estimators.vertical_samples import few_trees
from tests.integration.commands import fedforest
from tests.integration.disturbances import (
    Disturbance,
    journal_of,
    state_of,
    train_disturbed,
    train_until,
)
from tests.integration.federation_folder import Role, wait_for
from tests.integration.processes import Processes, result_type
from tests.integration.samples import (
    SEED,
    TRAININGS,
    AnyTraining,
    bare_tables,
    draw_rows,
    vertical,
)

NOTICED_SECONDS = 20.0


def _resume(processes: Processes, order: AnyTraining, run: str) -> None:
    """The run goes on, and ends as if nothing had happened."""
    with processes.user() as user:
        result = user.ask(ResumeRun(run=run), result_type(order))
    assert result.model == run
    processes.check(order, result)


@pytest.mark.slow
def test_a_frozen_party_is_noticed_in_time_and_goes_on_when_it_thaws(pair: Processes) -> None:
    order = vertical(2)
    party = pair.folder.parties["shop"]

    def freeze() -> None:
        party.signal(signal.SIGSTOP)
        frozen = time.monotonic()
        try:
            wait_for(lambda: not pair.folder.is_connected("shop"), pair.folder, NOTICED_SECONDS)
        finally:
            party.signal(signal.SIGCONT)
        assert time.monotonic() - frozen < NOTICED_SECONDS

    pair.check(order, train_disturbed(pair, order, [Disturbance(3, freeze)]))


@pytest.mark.slow
@pytest.mark.parametrize("training", ["vertical", "horizontal, masked"])
def test_a_party_that_stays_away_pauses_the_run_until_it_is_back(
    hasty: Processes, training: str
) -> None:
    order = TRAININGS[training](2)
    run, error = train_until(hasty, order, 4, lambda _: hasty.folder.parties["shop"].kill())
    assert isinstance(error, PartyLost)
    assert error.party == "shop"
    assert state_of(hasty, run).state == "paused"
    assert "shop" in state_of(hasty, run).doing
    hasty.folder.start()
    _resume(hasty, order, run)


@pytest.mark.slow
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_paused_run_goes_on_by_itself_when_the_party_is_back(
    hasty: Processes, *, is_restarted: bool
) -> None:
    order = vertical(2)
    run, _ = train_until(hasty, order, 4, lambda _: hasty.folder.parties["shop"].kill())
    if is_restarted:
        hasty.folder.coordinator.kill()
    hasty.folder.start()
    wait_for(lambda: state_of(hasty, run).state == "finished", hasty.folder)
    with hasty.user() as user:
        hasty.check(order, user.ask(WatchRun(run=run), result_type(order)))


@pytest.mark.slow
def test_a_run_with_no_tree_complete_cannot_end_early_and_is_not_lost(hasty: Processes) -> None:
    order = vertical(2)
    run, _ = train_until(hasty, order, 4, lambda _: hasty.folder.parties["shop"].kill())
    with hasty.user() as user, pytest.raises(ConfigurationError, match="nothing of it is complete"):
        user.ask(EndRunEarly(run=run, without=["shop"]), result_type(order))
    hasty.folder.start()
    _resume(hasty, order, run)


@pytest.mark.slow
@few_trees
def test_a_run_whose_party_is_gone_ends_with_the_trees_it_has_and_predicts_when_it_is_back(
    hasty: Processes,
) -> None:
    """The party left out has finished no run: it keeps its share of the trees when it returns."""
    stopping = EarlyStopping(patience=2, tolerance=0.0)
    order = msgspec.structs.replace(
        vertical(2, n_trees=40, max_depth=3), early_stopping=stopping, out_of_bag=True
    )
    shop = hasty.folder.parties["shop"]
    run, error = train_until(hasty, order, 15, lambda _: shop.kill())
    assert isinstance(error, PartyLost)
    told = fedforest(hasty, "runs", "resume", run, "--end-early", "--without", "shop", "--json")
    ended = json.loads(told.splitlines()[-1])
    assert (ended["state"], ended["run"]) == ("finished", run)
    with hasty.user() as user:
        result = user.ask(WatchRun(run=run), VerticalResult)
        assert 2 <= result.n_trees < 40
        assert result.n_trees % 2 == 0
        assert np.isnan(np.frombuffer(result.importances["shop"] or b"")).all()
        predict = PredictVertical(data=order.data, model=run)
        with pytest.raises(PartyLost):
            user.ask(predict, Predictions)
        hasty.folder.coordinator.kill()  # it remembers what it owes the party
        hasty.folder.start()
        votes = user.ask(predict, Predictions).read()
    tables = bare_tables(2)
    forest = VerticalForestClassifier(
        n_estimators=result.n_trees, max_depth=3, random_state=SEED, oob_score=True
    )
    forest.fit(tables, draw_rows()[1])
    assert np.array_equal(votes, forest.predict_proba(tables))
    curve = np.frombuffer(result.out_of_bag_curve or b"")
    assert np.array_equal(curve, forest.oob_curve_)
    wait_for(lambda: not journal_of(shop, run).exists(), hasty.folder)


@pytest.mark.parametrize("name", ["coordinator", "shop"])
def test_a_damaged_journal_is_named_and_the_service_stays_up(pair: Processes, name: str) -> None:
    order = vertical(2)
    role = pair.folder.role(name)

    def kill_and_damage(run: str) -> None:
        role.kill()
        journal = journal_of(role, run)
        data = bytearray(journal.read_bytes())
        data[len(data) // 2] ^= 1
        journal.write_bytes(data)
        pair.folder.start()

    run, error = train_until(pair, order, 6, kill_and_damage)
    assert isinstance(error, DamagedJournalError)
    assert str(pair.folder.folder) not in str(error) or name == "coordinator"
    assert name == "coordinator" or repr(name) in str(error)
    assert role.is_running
    following = vertical(2, n_trees=2)
    pair.check(following, pair.train(following))
    with pair.user() as user:
        user.ask(CancelRun(run=run), RunList)
    assert state_of(pair, run).state == "cancelled"
    assert not any(journal_of(role, run).exists() for role in pair.folder.roles)


@pytest.mark.parametrize("name", ["coordinator", "shop"])
@pytest.mark.parametrize(
    "training", ["vertical", pytest.param("horizontal, masked", marks=pytest.mark.exhaustive)]
)
def test_a_full_disk_is_named_and_the_run_goes_on_once_there_is_room(
    pair: Processes, name: str, training: str
) -> None:
    order = TRAININGS[training](2)
    role = pair.folder.role(name)
    run, error = train_until(pair, order, 5, lambda _: _limit_files(role, 1))
    assert isinstance(error, StorageError)
    assert not isinstance(error, DamagedJournalError)
    assert role.is_running
    _limit_files(role, resource.RLIM_INFINITY)
    _resume(pair, order, run)


def _limit_files(role: Role, n_bytes: int) -> None:
    """Let no file of a running process grow beyond this, as on a disk without room."""
    assert role.process is not None
    _, hard = resource.prlimit(role.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(role.process.pid, resource.RLIMIT_FSIZE, (n_bytes, hard))
