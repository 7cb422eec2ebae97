"""A role that is killed at any moment and started again: the run ends, and its model is the same.

Which training is disturbed, who is killed and when follows from a seed; what a moment hits depends
on the machine. Every moment must do.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fedforest.runtime.messages.orders import ListRuns, PredictVertical, WatchRun
from fedforest.runtime.messages.results import (
    Exchanged,
    HorizontalResult,
    News,
    Predictions,
    RunAccepted,
    RunList,
    VerticalResult,
)
from tests.integration.disturbances import Disturbance, kill_and_restart, train_disturbed
from tests.integration.federation_folder import wait_for
from tests.integration.processes import SUBMIT_SECONDS, Processes
from tests.integration.samples import NAMES, TRAININGS, vertical

KILLED = (
    "vertical",
    "horizontal, masked",
    "horizontal, local privacy",
    "vertical with encrypted labels",
)
N_MOMENTS, N_MOMENTS_IN_CI = 32, 8
FEWEST_EXCHANGES = 22  # that any of these trainings has


def _seeds(in_ci: int, in_all: int) -> list[Any]:
    exhaustive = [pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(in_ci, in_all)]
    return [*range(in_ci), *exhaustive]


@pytest.mark.parametrize("seed", _seeds(N_MOMENTS_IN_CI, N_MOMENTS))
def test_a_killed_role_comes_back_and_the_model_is_the_same(pair: Processes, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = TRAININGS[KILLED[seed % len(KILLED)]](2)
    role = ("coordinator", *NAMES[:2])[(seed // len(KILLED) + seed) % 3]
    moment = int(rng.integers(1, FEWEST_EXCHANGES))
    kill = Disturbance(moment, kill_and_restart(pair, role))
    pair.check(order, train_disturbed(pair, order, [kill]))


@pytest.mark.slow
@pytest.mark.parametrize("roles", [("coordinator", "coordinator"), ("bank", "shop")])
def test_roles_may_be_killed_twice_in_a_run(pair: Processes, roles: tuple[str, str]) -> None:
    order = TRAININGS["vertical with randomized labels"](2)
    kills = [
        Disturbance(n_exchanges, kill_and_restart(pair, role))
        for n_exchanges, role in zip((4, 12), roles, strict=True)
    ]
    pair.check(order, train_disturbed(pair, order, kills))


@pytest.mark.parametrize("name", ["coordinator", "shop"])
def test_a_role_that_is_asked_to_stop_in_a_run_stops_and_goes_on_when_it_is_back(
    pair: Processes, name: str
) -> None:
    order = vertical(2)
    role = pair.folder.role(name)

    def restart() -> None:
        assert role.stop() == 0
        role.start()

    pair.check(order, train_disturbed(pair, order, [Disturbance(5, restart)]))


def test_everybody_may_be_killed_at_once(pair: Processes) -> None:
    order = TRAININGS["vertical with left-out rows"](2)

    def kill_all() -> None:
        for role in pair.folder.roles:
            role.kill()
        for role in pair.folder.roles:
            role.start()

    pair.check(order, train_disturbed(pair, order, [Disturbance(9, kill_all)]))


def test_a_coordinator_killed_while_runs_are_queued_carries_all_of_them_out(
    pair: Processes,
) -> None:
    orders = [vertical(2), vertical(2, n_trees=3), vertical(2, n_trees=2)]
    accepted: list[News] = []

    def note(event: News) -> None:
        if isinstance(event, RunAccepted):
            accepted.append(event)

    with pair.user() as user, ThreadPoolExecutor(len(orders)) as threads:
        calls = [threads.submit(user.train, order, VerticalResult, note) for order in orders]
        wait_for(lambda: len(accepted) == len(orders), pair.folder)
        pair.folder.coordinator.kill()
        pair.folder.coordinator.start()
        results = [call.result(SUBMIT_SECONDS) for call in calls]
    for order, result in zip(orders, results, strict=True):
        pair.check(order, result)
    with pair.user() as user:
        states = {run.run: run.state for run in user.ask(ListRuns(), RunList).runs}
        assert {states[result.model] for result in results} == {"finished"}
        again = user.ask(WatchRun(run=results[0].model), VerticalResult)
    assert again == results[0]


def test_a_coordinator_killed_with_two_runs_under_way_carries_both_out(pair: Processes) -> None:
    whole = TRAININGS["horizontal"](2)
    orders = [structs.replace(whole, data={party: whole.data[party]}) for party in NAMES[:2]]
    under_way = [threading.Event() for _ in orders]

    def note(begun: threading.Event) -> Callable[[News], None]:
        return lambda event: begun.set() if isinstance(event, Exchanged) else None

    with pair.user() as user, ThreadPoolExecutor(len(orders)) as threads:
        calls = [
            threads.submit(user.train, order, HorizontalResult, note(begun))
            for order, begun in zip(orders, under_way, strict=True)
        ]
        assert all(begun.wait(SUBMIT_SECONDS) for begun in under_way)
        pair.folder.coordinator.kill()
        pair.folder.coordinator.start()
        results = [call.result(SUBMIT_SECONDS) for call in calls]
    for order, result in zip(orders, results, strict=True):
        pair.check(order, result)


def test_a_prediction_in_which_a_party_is_killed_comes_to_the_same(pair: Processes) -> None:
    """Killed somewhere in predictions of many exchanges until it was in the middle of one."""
    order = vertical(2)
    model = pair.train(order).model
    predict = PredictVertical(data=order.data, model=model, lookahead=1)
    rng, shop = np.random.default_rng(0), pair.folder.parties["shop"]
    with pair.user() as user, ThreadPoolExecutor(1) as thread:
        expected = user.ask(predict, Predictions)
        started = time.monotonic()
        assert user.ask(predict, Predictions) == expected  # not the first, which loads the model
        seconds = time.monotonic() - started
        while "prediction begun again" not in pair.folder.coordinator.log_since_start():
            assert time.monotonic() - started < SUBMIT_SECONDS, "it was never killed in the middle"
            call = thread.submit(user.ask, predict, Predictions)
            time.sleep(seconds * rng.uniform(0.2, 0.8))
            shop.kill()
            shop.start()
            assert call.result(SUBMIT_SECONDS) == expected
