"""Whoever watches a run hears everything that happens in it, once and in order, and how it ends."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from fedforest.errors import PartyLost
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.results import Exchanged, Progress, Waiting
from fedforest.transport.pauses import Pause, block
from fedforest.tree.growth.parameters import ForestParameters

DEADLINE_SECONDS = 20.0


def make_job() -> Job:
    order = TrainVertical(
        data={"bank": "loans"}, label="y", label_party="bank", parameters=ForestParameters()
    )
    return Job(bytes(16), order)


def exchanged(number: int) -> Exchanged:
    return Exchanged(f"step {number}", 1, {}, {}, 0.0, {})


def hear(job: Job) -> list[str]:
    """The steps a watcher is told of until the end."""
    watcher = job.watch()
    assert watcher is not None
    steps = []
    for event in block(watcher.events()):
        assert isinstance(event, Progress)
        steps += [told.request for told in event.events if isinstance(told, Exchanged)]
    return steps


def test_a_watcher_hears_what_was_before_and_what_follows() -> None:
    job = make_job()
    expected = [f"step {number}" for number in range(200)]
    for number in range(100):
        job.tell(exchanged(number))
    with ThreadPoolExecutor(2) as threads:
        heard = [threads.submit(hear, job) for _ in range(2)]
        while len(job.watchers) < 2:
            assert not any(call.done() for call in heard)
        for number in range(100, 200):
            job.tell(exchanged(number))
        job.end("finished")
        assert [call.result(DEADLINE_SECONDS) for call in heard] == [expected, expected]


def test_why_a_run_was_paused_is_raised_after_all_that_happened_before() -> None:
    job = make_job()
    watcher = job.watch()
    assert watcher is not None
    job.tell(Waiting(["shop"]))
    job.end("paused", PartyLost("it is away", "shop"))
    events = block(watcher.events())
    assert next(events) == Progress([Waiting(["shop"])])
    with pytest.raises(PartyLost):
        next(events)


def test_who_comes_while_parties_are_waited_for_hears_of_it_and_nobody_does_later() -> None:
    job = make_job()
    job.tell(Waiting(["shop"]))
    early = job.watch()
    job.tell(exchanged(1))
    late = job.watch()
    job.end("finished")
    assert early is not None
    assert late is not None
    assert list(block(early.events())) == [Progress([Waiting(["shop"]), exchanged(1)])]
    assert list(block(late.events())) == [Progress([exchanged(1)])]


def test_a_run_that_ends_while_somebody_looks_away_is_over_for_them_too() -> None:
    job = make_job()
    watcher = job.watch()
    assert watcher is not None

    job.tell(exchanged(1))
    events = watcher.events()
    pauses = [next(events), next(events)]
    assert all(isinstance(pause, Pause) for pause in pauses)
    job.end("finished")  # while the watcher waits for more events to come together
    assert list(block(events)) == [Progress([exchanged(1)])]


def test_a_run_that_has_ended_is_not_watched() -> None:
    job = make_job()
    job.end("finished")
    assert job.watch() is None
