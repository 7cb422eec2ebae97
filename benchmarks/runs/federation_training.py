"""One training in a live federation: how long it took its user, and where the seconds went."""

import time
from collections import Counter
from typing import Any, NamedTuple

from benchmarks.live_federation import LABEL, PARTIES, TESTING, TRAINING
from benchmarks.network_floor import Steps, Work
from benchmarks.tasks import ForestSettings
from fedforest.experiments.live.federation import LiveFederation
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import PredictVertical, TrainVertical
from fedforest.runtime.messages.results import Exchanged, News, Predictions, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters

LOG_SECONDS = 10.0  # for lines of the log that are written after the result has left


class Training(NamedTuple):
    """What its user saw of a training."""

    model: str
    wall: float
    steps: Steps

    @property
    def n_bytes(self) -> int:
        """Bytes that an exchange has to wait for: of the party that sends and gets most."""
        return sum(max(map(sum, step.values())) for step in self.steps)


def train(client: Federation, forest: ForestSettings, seed: int) -> Training:
    """Train in a federation of two parties that is connected already."""
    order = TrainVertical(
        data=dict.fromkeys(PARTIES, TRAINING),
        label=LABEL,
        label_party=PARTIES[0],
        parameters=ForestParameters(
            task=forest.task,
            criterion="squared_error" if forest.task == "regression" else "gini",
            n_estimators=forest.n_trees,
            max_depth=forest.max_depth,
            max_features=forest.max_features,
        ),
        seed=seed,
    )
    events: list[News] = []
    started = time.perf_counter()
    result = client.train(order, VerticalResult, events.append)
    wall = time.perf_counter() - started
    steps = [
        {party: (event.bytes_to[party], event.bytes_from[party]) for party in event.bytes_to}
        for event in events
        if isinstance(event, Exchanged)
    ]
    return Training(result.model, wall, steps)


def predict(client: Federation, model: str, rows: list[int] | None = None) -> Any:
    """The votes for rows of the test set, by default for all of them."""
    order = PredictVertical(data=dict.fromkeys(PARTIES, TESTING), model=model, rows=rows)
    return client.ask(order, Predictions).read()


class Phases(NamedTuple):
    """Seconds of one training as its roles wrote them into their logs.

    Of parties that work at the same time, those of the one that takes longest count.
    """

    seconds: dict[str, float]
    work: Work  # the handling of each party in each step


def find_phases(federation: LiveFederation, training: Training) -> Phases:
    """Where the seconds of a training went."""
    run = training.model  # a model has the id of its run
    finished = _wait_for_end(federation, run)
    answered = {
        name: [e for e in role.events() if e["event"] == "answered" and e.get("run") == run]
        for name, role in federation.parties.items()
    }
    place: Counter[str] = Counter()
    work, journal = [], 0.0
    for step in training.steps:
        answers = {party: answered[party][place[party]] for party in step}
        place.update(step.keys())
        work.append({party: answer["handling_seconds"] for party, answer in answers.items()})
        journal += max(answer["journal_seconds"] for answer in answers.values())
    seconds = {
        "handling": sum(max(pause.values()) for pause in work),
        "thinking": finished["thinking_seconds"],
        "journal": journal + finished["journal_seconds"],
        "exchanging": finished["exchanging_seconds"],
    }
    return Phases(seconds, work)


def _wait_for_end(federation: LiveFederation, run: str) -> dict[str, Any]:
    deadline = time.monotonic() + LOG_SECONDS
    while time.monotonic() < deadline:
        for event in federation.coordinator.events():
            if event["event"] == "finished" and event["run"] == run:
                return event
        time.sleep(0.01)
    raise RuntimeError(f"the coordinator's log does not tell of the end of run {run}")
