"""Progress of a training on the terminal, for `verbose` above zero."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedforest.runtime.driver import Exchange, ExchangeLog


@contextmanager
def watch(log: ExchangeLog, n_trees: int, verbose: int) -> Iterator[None]:
    """Draw a bar while exchanges are added to the log."""
    if not verbose:
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - only where a bar is drawn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total} trees"),
        TextColumn("{task.fields[doing]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task("Federated forest", total=n_trees, doing="")

        def show(exchange: Exchange) -> None:
            note = exchange.note
            if "level" in note:
                doing = f"level {note['level']}, {note['open_nodes']} open nodes"
                progress.update(bar, completed=note["trees"].start, doing=doing)

        log.observers.append(show)
        yield
        progress.update(bar, completed=n_trees, doing="done")
