"""What a page is told of a run that goes on."""

import json
import threading

import anyio
import pytest

from fedforest.reports.progress import RunProgress
from fedforest.runtime.messages.results import Exchanged, Waiting
from fedforest.web.dashboard.run_live import RunFeed, describe_feed, stream_parts


def exchange(trees: tuple[int, int], level: int, **note: float) -> Exchanged:
    told = {"trees": list(trees), "level": level, "open_nodes": 8, **note}
    return Exchanged("FindSplits", 2, {"bank": 400}, {"bank": 600}, 0.5, told)


def test_bytes_are_counted_by_party_and_the_curve_by_batch() -> None:
    feed = RunFeed(RunProgress(30, 4))
    for event in (
        exchange((0, 10), 1),
        exchange((10, 20), 1, oob_score=0.7),
        exchange((10, 20), 2, oob_score=0.7),
        exchange((20, 30), 1, oob_score=0.8),
    ):
        feed.hear(event)
    assert feed.bytes_to == {"bank": 1600}
    assert feed.bytes_from == {"bank": 2400}
    assert feed.curve == [(10, 0.7), (20, 0.8)]
    page = str(describe_feed(feed))
    assert "Level 1, 8 open nodes" in page
    assert "trees 21 to 30 of 30" in page
    assert "0.8000" in page
    assert "<svg" in page


def test_names_of_parties_that_are_waited_for_are_texts() -> None:
    feed = RunFeed(RunProgress(30))
    feed.hear(Waiting(["<script>"]))
    assert "<script>" not in str(describe_feed(feed))


@pytest.mark.parametrize("is_welcome", [True, False])
def test_a_stream_ends_with_the_run_or_with_the_session(is_welcome: bool) -> None:
    feed = RunFeed(RunProgress(30))
    feed.hear(exchange((0, 10), 1))
    threading.Timer(0.3, feed.is_over.set).start()

    async def read() -> list[str]:
        return [event async for event in stream_parts(feed, lambda: is_welcome)]

    events = anyio.run(read)
    if not is_welcome:
        assert events == []
        return
    assert events[-1] == 'event: over\ndata: ""\n\n'
    kind, data, *rest = events[0].split("\n")
    assert (kind, rest) == ("event: part", ["", ""])
    assert "Level 1" in json.loads(data.removeprefix("data: "))
