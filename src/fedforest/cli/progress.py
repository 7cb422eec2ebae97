"""The progress of a run, from its events, as a bar or as lines.

On a terminal there is one bar; elsewhere a line for every stage and every few seconds; with
`--json` a line for every event. Time left is guessed only where the depth of trees is known: from
`max_depth`, or from batches of trees that are complete.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedforest.reports.formats import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedforest.cli.terminal import Terminal
    from fedforest.runtime.messages.results import Exchanged, News

SILENT_SECONDS = 8.0  # without any event, after which the watcher is told what it may be
LINE_SECONDS = 5.0  # between lines about the same stage, away from a terminal
_SILENT = (
    "Still waiting. The first training after an installation compiles kernels, once, at the "
    "coordinator and at every party; `fedforest warm-up` there does it beforehand."
)
_LEAST_SHARE = 0.02  # of the work; before that nothing can be said about the rest


@dataclass(slots=True)
class RunProgress:
    """The state of a run, from the events received so far."""

    n_trees: int
    max_depth: int | None = None
    clock: Callable[[], float] = time.monotonic
    doing: str = "waiting its turn"
    trees: range = range(0)  # that grow at this moment
    level: int | None = None  # of the deepest open nodes
    open_nodes: int = 0
    n_heard: int = 0  # events of any kind
    is_anybody_away: bool = False  # and the run waits for them
    n_exchanges: int = 0
    n_bytes: int = 0
    oob_score: float | None = None
    _seconds: float = 0.0  # of exchanges; those before watching began included
    _deepest: int = 0  # level of batches that are complete
    part: str = ""  # of the run, such as its alignment
    pieces: tuple[int, int] | None = None  # of lists of ids: done, and all
    warning: str = ""  # that came with the last exchange
    _first_step: int | None = None  # of this level: further ones ask nodes again
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def hear(self, event: News) -> None:
        """One more event."""
        from fedforest.runtime.messages.results import Exchanged, Waiting

        self.n_heard += 1
        self.is_anybody_away = isinstance(event, Waiting) and bool(event.parties)
        if isinstance(event, Waiting):
            names = ", ".join(event.parties)
            away = f"waiting for {names}, not connected to the coordinator"
            self.doing = away if names else "all parties are connected again"
        elif isinstance(event, Exchanged):
            self._hear_exchange(event)

    def _hear_exchange(self, event: Exchanged) -> None:
        self.n_exchanges += 1
        self.n_bytes += sum(event.bytes_to.values()) + sum(event.bytes_from.values())
        self._seconds += event.seconds
        note = event.note
        self.warning = str(note.get("warning", ""))
        self.oob_score = note.get("oob_score", self.oob_score)
        part = f"{note['part']}: " if "part" in note else ""
        if part != self.part:  # trees and levels begin anew in every part
            self.part, self.trees, self.level, self._deepest = part, range(0), None, 0
            self._since, self._seconds = self.clock() - event.seconds, event.seconds
        self.pieces = (note["done"], note["total"]) if "total" in note else None
        if "level" not in note:
            self.doing = part + _name_step(event.request)
            return
        trees = range(*note["trees"])
        if self.level is not None and trees.start > self.trees.start:
            self._deepest = max(self._deepest, self.level)
        if (trees, note["level"]) != (self.trees, self.level):
            self._first_step = note.get("step")
        self.trees, self.level, self.open_nodes = trees, note["level"], note["open_nodes"]
        nodes = "node" if self.open_nodes == 1 else "nodes"
        # a node whose candidates could not split it is asked about again, with others
        again = " again" if note.get("step") != self._first_step else ""
        self.doing = f"{part}level {self.level}{again}, {self.open_nodes} open {nodes}"

    @property
    def share(self) -> float | None:
        """Estimate the fraction of the growing, or of the comparing of ids, that is done."""
        if self.pieces is not None:
            return self.pieces[0] / max(1, self.pieces[1])
        depth = self.max_depth or self._deepest
        if self.level is None or not depth:
            return None
        grown = self.trees.start + len(self.trees) * min(1.0, self.level / depth)
        return min(1.0, grown / max(1, self.n_trees))

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the time that growing took so far; None if the depth is unknown."""
        share = self.share
        if share is None or share < _LEAST_SHARE:
            return None
        spent = max(self._seconds, self.clock() - self._since)
        return spent * (1.0 - share) / share

    def describe(self) -> str:
        """Return all of it on one line."""
        parts = [self.doing]
        if 0 < len(self.trees) < self.n_trees:
            parts.append(f"trees {self.trees.start + 1}-{self.trees.stop} of {self.n_trees}")
        if self.pieces is not None and self.share is not None:
            parts.append(f"{self.share:.0%} of the ids")
        parts.append("1 exchange" if self.n_exchanges == 1 else f"{self.n_exchanges} exchanges")
        parts.append(format_bytes(self.n_bytes))
        if self.oob_score is not None:
            parts.append(f"out-of-bag score {self.oob_score:.4f}")
        if self.seconds_left is not None:
            parts.append(f"about {format_seconds(self.seconds_left)} left")
        return ", ".join(parts)


def _name_step(request: str) -> str:
    """`ShareLabels` as words."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", request).lower()


@contextmanager
def watching(
    terminal: Terminal, run: str, progress: RunProgress
) -> Iterator[Callable[[News], None]]:
    """Return the callback that is told of every event while a run is watched."""
    if terminal.as_json:
        yield _tell_json(terminal, run)
    elif terminal.quiet:
        yield progress.hear
    elif terminal.err.is_terminal:
        with _draw_bar(terminal, progress) as tell:
            yield tell
    else:
        with _explaining_silence(progress, lambda: terminal.say(_SILENT)):
            yield _tell_lines(terminal, progress)


def _tell_json(terminal: Terminal, run: str) -> Callable[[News], None]:
    import msgspec

    def tell(event: News) -> None:
        content: dict[str, Any] = msgspec.structs.asdict(event)
        name = _name_step(type(event).__name__).replace(" ", "_")
        terminal.show_json({"event": name, "run": run, **content})

    return tell


def _tell_lines(terminal: Terminal, progress: RunProgress) -> Callable[[News], None]:
    """A line where a new stage begins, and one every few seconds within it: a log stays short."""
    stage: tuple[str, bool] | None = None
    told = -LINE_SECONDS

    def tell(event: News) -> None:
        nonlocal stage, told
        progress.hear(event)
        if progress.warning:
            terminal.say(f"Warning: {progress.warning}")
            progress.warning = ""
        now = (progress.part, progress.is_anybody_away)
        if now != stage or progress.clock() - told >= LINE_SECONDS:
            terminal.say(progress.describe())
            stage, told = now, progress.clock()

    return tell


@contextmanager
def _explaining_silence(progress: RunProgress, explain: Callable[[], None]) -> Iterator[None]:
    """Say once why it may take so long, when nothing was heard for a while."""
    is_over = threading.Event()

    def listen() -> None:
        n_heard = progress.n_heard
        while not is_over.wait(SILENT_SECONDS):
            if n_heard == progress.n_heard and not progress.is_anybody_away:
                explain()
                return
            n_heard = progress.n_heard

    threading.Thread(target=listen, name="fedforest-silence", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


@contextmanager
def _draw_bar(terminal: Terminal, progress: RunProgress) -> Iterator[Callable[[News], None]]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    words = TextColumn("{task.description}", table_column=Column(no_wrap=True))
    columns = (BarColumn(bar_width=12), TimeElapsedColumn(), words)
    with (
        Progress(*columns, console=terminal.err, transient=True) as bars,
        _explaining_silence(progress, lambda: bars.console.print(_SILENT)),
    ):
        bar = bars.add_task(progress.doing, total=None)

        def tell(event: News) -> None:
            progress.hear(event)
            if progress.warning:
                bars.console.print(f"Warning: {progress.warning}", markup=False)
                progress.warning = ""
            share = progress.share
            bars.update(
                bar,
                description=progress.describe(),
                total=None if share is None else 1.0,
                completed=share or 0.0,
            )

        yield tell
