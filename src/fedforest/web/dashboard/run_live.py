"""Runs as they go on: one thread watches a run for a user, and tells all pages of that user.

A page holds a stream of server-sent events; each event is the whole part of the page that changes.
"""

import math
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec

from fedforest.errors import ConfigurationError, FederationError
from fedforest.reports.charts import line_chart
from fedforest.reports.formats import format_bytes, format_score, format_seconds
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import chart
from fedforest.reports.progress import RunProgress
from fedforest.runtime.messages.orders import EndRunEarly, ResumeRun, WatchRun
from fedforest.runtime.messages.results import Exchanged, Progress, RunDetails
from fedforest.web.api.door import Door
from fedforest.web.dashboard.layout import notice

_MOST_FEEDS = 100
_PACE_SECONDS = 0.5
_QUIET_SECONDS = 15.0  # after which a stream says that it is there

Watching = WatchRun | ResumeRun | EndRunEarly


@dataclass
class RunFeed:
    """What is known of a run under way, from its events."""

    progress: RunProgress
    began: float = field(default_factory=time.monotonic)
    bytes_to: dict[str, int] = field(default_factory=dict)
    bytes_from: dict[str, int] = field(default_factory=dict)
    curve: list[tuple[int, float]] = field(default_factory=list)  # trees, out-of-bag score
    version: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)
    error: FederationError | None = None

    def follow(self, door: Door, order: Watching) -> None:
        """Hear all events of a run, until it ends or pauses."""
        try:
            for event in door.events(order):
                if isinstance(event, Progress):
                    for told in event.events:
                        self.hear(told)
                    self.version += 1
        except FederationError as error:
            self.error = error.bare()
        finally:
            self.version += 1
            self.is_over.set()

    def hear(self, event: Any) -> None:
        """Hear one event."""
        self.progress.hear(event)
        if not isinstance(event, Exchanged):
            return
        for party, n_bytes in event.bytes_to.items():
            self.bytes_to[party] = self.bytes_to.get(party, 0) + n_bytes
        for party, n_bytes in event.bytes_from.items():
            self.bytes_from[party] = self.bytes_from.get(party, 0) + n_bytes
        score, n_trees = event.note.get("oob_score"), self.progress.trees.start
        is_new = not self.curve or self.curve[-1][0] < n_trees  # once for each batch of trees
        if score is not None and math.isfinite(score) and is_new:
            self.curve.append((n_trees, float(score)))


class RunFeeds:
    """The feeds of a site, one for each run and user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._feeds: dict[tuple[str, str], RunFeed] = {}

    def resume(self, door: Door, details: RunDetails, order: ResumeRun | EndRunEarly) -> RunFeed:
        """Send a request that makes a run go on, and return the feed of its events."""
        feed = _make_feed(details)
        with self._lock:
            self._feeds[door.user, details.state.run] = feed
        _begin(feed, door, order)
        return feed

    def watch(self, door: Door, details: RunDetails) -> RunFeed:
        """Return the feed of a run, which begins to listen if nobody of this user does yet."""
        key = door.user, details.state.run
        with self._lock:
            found = self._feeds.get(key)
            if found is not None and not found.is_over.is_set():
                return found
            self._feeds = {k: f for k, f in self._feeds.items() if not f.is_over.is_set()}
            if len(self._feeds) >= _MOST_FEEDS:
                raise ConfigurationError("too many runs are watched now; close some pages")
            feed = self._feeds[key] = _make_feed(details)
        _begin(feed, door, WatchRun(run=details.state.run))
        return feed


def _make_feed(details: RunDetails) -> RunFeed:
    parameters = details.order.get("parameters", {})
    return RunFeed(RunProgress(parameters.get("n_estimators", 0), parameters.get("max_depth")))


def _begin(feed: RunFeed, door: Door, order: Watching) -> None:
    name = f"fedforest-page-{order.run[:8]}"
    threading.Thread(target=feed.follow, args=(door, order), name=name, daemon=True).start()


async def stream_parts(feed: RunFeed, is_welcome: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield server-sent events: the part of the page whenever there is news, and the end."""
    told, at = -1, time.monotonic()
    while True:
        is_over = feed.is_over.is_set()
        if feed.version != told or time.monotonic() - at > _QUIET_SECONDS:
            if not is_welcome():
                return
            told, at = feed.version, time.monotonic()
            yield write_event("part", str(describe_feed(feed)))
        if is_over:
            yield write_event("over", "")
            return
        await anyio.sleep(_PACE_SECONDS)


def write_event(kind: str, text: str) -> str:
    """Return an event as it travels; JSON keeps it on one line."""
    return f"event: {kind}\ndata: {msgspec.json.encode(text).decode()}\n\n"


def describe_feed(feed: RunFeed) -> Markup:
    """Return the part of the page that shows how far a run is."""
    progress = feed.progress
    share = progress.share
    bar = element(
        "progress",
        "",
        max=None if share is None else 1,
        value=None if share is None else f"{share:.4f}",
        aria_label="how much of the run is done",
    )
    stage = progress.doing[:1].upper() + progress.doing[1:]
    trees = ""
    if 0 < len(progress.trees) < progress.n_trees:
        trees = f", trees {progress.trees.start + 1} to {progress.trees.stop} of {progress.n_trees}"
    parts: list[Child] = [
        element("p", element("strong", stage), trees, class_="stage"),
        bar,
        element("ul", _list_figures(feed), class_="tiles"),
    ]
    if progress.warning:
        parts.append(notice(progress.warning, kind="warn"))
    if len(feed.curve) > 1:
        drawn = line_chart(
            "Out-of-bag score so far", [y for _, y in feed.curve], across="batches of trees"
        )
        parts.append(chart(drawn))
    if feed.bytes_to:
        parts.append(_tabulate_bytes(feed))
    return element("div", parts)


def _list_figures(feed: RunFeed) -> list[Markup]:
    progress = feed.progress
    left = progress.seconds_left
    figures = [
        (str(progress.n_exchanges), "exchanges"),
        (format_bytes(progress.n_bytes), "both ways, of all parties"),
        ("-" if left is None else f"about {format_seconds(left)}", "left"),
    ]
    if progress.oob_score is not None:
        figures.append((format_score(progress.oob_score), "out-of-bag score"))
    return [
        element("li", element("b", figure), element("span", label)) for figure, label in figures
    ]


def _tabulate_bytes(feed: RunFeed) -> Markup:
    rows = [
        [party, format_bytes(feed.bytes_from.get(party, 0)), format_bytes(n_bytes)]
        for party, n_bytes in sorted(feed.bytes_to.items())
    ]
    return table(["Party", "Sent", "Received"], rows, caption="What travelled so far")
