"""Progress of a training on the terminal, for `verbose` above zero."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedforest.kernels.compiled.preparation import prepare
from fedforest.kernels.compiled.progress import telling
from fedforest.runtime.driver import Exchange, ExchangeLog


@contextmanager
def watch(
    log: ExchangeLog, n_trees: int, verbose: int, kernels: tuple[str, ...] = ()
) -> Iterator[None]:
    """Draw a bar while exchanges are added to the log; first prepare kernels of these kinds."""
    if not verbose:
        prepare(*kernels)
        yield
        return
    from rich.filesize import decimal  # noqa: PLC0415 - only where a bar is drawn
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - only where a bar is drawn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total} trees"),
        TextColumn("{task.fields[doing]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task("Federated forest", total=n_trees, doing="preparing")
        grown, n_bytes = n_trees, 0  # a forest of single leaves has no level

        def told(n_bytes: int) -> str:
            return f"{decimal(n_bytes)} to and from parties"

        def show(exchange: Exchange) -> None:
            nonlocal grown, n_bytes
            n_bytes += exchange.n_bytes
            note = exchange.note
            if "level" in note:
                doing = f"level {note['level']}, {note['open_nodes']} open nodes"
                grown = note["trees"].stop
                progress.update(
                    bar, completed=note["trees"].start, doing=f"{doing}, {told(n_bytes)}"
                )

        log.observers.append(show)
        with telling(lambda text: progress.update(bar, doing=text)):
            prepare(*kernels)
            yield
        progress.update(bar, completed=grown, doing=f"done, {told(n_bytes)}")
