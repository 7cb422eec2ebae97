"""The progress of a run, from its events, as a bar or as lines.

On a terminal there is one bar; elsewhere a line for every stage and every few seconds; with
`--json` a line for every event.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fedforest.reports.progress import RunProgress, name_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedforest.cli.terminal import Terminal
    from fedforest.runtime.messages.results import News

SILENT_SECONDS = 8.0  # without any event, after which the watcher is told what it may be
LINE_SECONDS = 5.0  # between lines about the same stage, away from a terminal
_SILENT = (
    "Still waiting. The first training after an installation compiles kernels, once, at the "
    "coordinator and at every party; `fedforest warm-up` there does it beforehand."
)


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
        name = name_step(type(event).__name__).replace(" ", "_")
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
