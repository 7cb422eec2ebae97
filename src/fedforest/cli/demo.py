"""`fedforest demo`: a federation of processes on this machine, from nothing to its models.

Certificates, a coordinator, three parties over mutual TLS, rows matched by ids, a vertical and a
horizontal run, a prediction; beside them what each party reaches alone and what the pooled table
would give. Nothing is left running or lying around, unless `--keep` asks for it.
"""

from __future__ import annotations

import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import Quiet, Terminal, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedforest.cli.demonstration.report import Comparison
    from fedforest.runtime.client import Federation
    from fedforest.runtime.results import RunDetails


_PICTURE = Path("fedforest-demo.png")


def demo(  # noqa: PLR0913, PLR0917 - options of a command
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the federation up until Ctrl-C.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Where the picture goes, by default fedforest-demo.png; --in-process draws one "
            "only if asked."
        ),
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="All parties in this process, no network.")
    ] = False,
    rows: Annotated[int, typer.Option(min=100, help="Rows, with --in-process.")] = 20_000,
    trees: Annotated[int, typer.Option(help="Trees, with --in-process.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and forests.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Show it all on this machine, from keys to models.

    Three parties and a coordinator, each a process of its own, over mutual TLS.

    Example: fedforest demo

    Example: fedforest demo --keep
    """
    if in_process:
        from fedforest.cli.demonstration.in_process import demonstrate

        demonstrate(rows, trees, seed, plot)
        return
    with _interrupted_by_sigterm(), ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="fedforest-demo-"))
        stack.callback(_remove, folder)
        _demonstrate(Terminal(quiet=quiet), folder, plot or _PICTURE, seed, keep=keep)


def _demonstrate(terminal: Terminal, folder: Path, plot: Path, seed: int, *, keep: bool) -> None:
    from fedforest.cli.demonstration.federation import running_federation
    from fedforest.cli.demonstration.letters import N_NEW, draw_letters
    from fedforest.cli.demonstration.report import draw, make_table
    from fedforest.cli.demonstration.story import pool, predict_new
    from fedforest.runtime.client import Federation

    started = time.perf_counter()
    letters = draw_letters(seed)
    terminal.say(
        "Three sorting offices scanned strips of the same letters, a third of each picture; each "
        "misses some letters.\nFirst what nobody can have: forests of all tables in one place "
        "(this also compiles the kernels, once per machine: the first time takes minutes)."
    )
    pooled = pool(letters, seed)
    terminal.say(
        f"That took {format_seconds(time.perf_counter() - started)}. Now a coordinator and three "
        "parties, each a process: keys, certificates, fingerprints, mutual TLS."
    )
    with running_federation(folder, letters.tables) as profile, Federation(profile) as federation:
        terminal.say(
            f"They are connected, {format_seconds(time.perf_counter() - started)} from the start."
        )
        comparisons = _compare(terminal, federation, folder, seed, pooled)
        terminal.out.print(make_table(comparisons))
        terminal.out.print(
            "Accuracy on held-out letters: of the federation on one held-out part, of pooled "
            "forests the mean over several others. They differ by that chance, some 0.01 to 0.02; "
            "over the same letters and columns the vertical forests are identical."
        )
        _print_rows(terminal, comparisons[0].details)
        _print_leakage(terminal, comparisons)
        right = predict_new(federation, comparisons[0].details.state.run, folder, letters)
        typer.echo(f"Of {N_NEW} letters that came later, {right:.1%} are read right.")
        draw([comparison.panel() for comparison in comparisons], plot)
        typer.echo(f"The picture is {plot}.")
        terminal.say(f"All of it took {format_seconds(time.perf_counter() - started)}.")
        if keep:
            _keep_up(profile, folder)


def _compare(
    terminal: Terminal,
    federation: Federation,
    folder: Path,
    seed: int,
    pooled: tuple[float, float],
) -> list[Comparison]:
    from fedforest.cli.demonstration.report import Comparison
    from fedforest.cli.demonstration.story import carry_out, write_run_files

    strips, scans = write_run_files(folder, seed)
    terminal.say("A vertical run: rows are matched by ids that nobody shows, then trees grow.")
    vertical = carry_out(federation, strips, terminal)
    terminal.say("A horizontal run: the coordinator sees masked sums only.")
    horizontal = carry_out(federation, scans, terminal)
    return [
        Comparison("strips of the same letters", vertical, pooled[0]),
        Comparison("letters of their own", horizontal, pooled[1]),
    ]


def _print_rows(terminal: Terminal, details: RunDetails) -> None:
    alignment = details.alignment
    if alignment is not None:
        counts = ", ".join(f"{party} {n:,}" for party, n in alignment.n_rows.items())
        terminal.out.print(f"All offices have {alignment.n_common:,} letters, of {counts}.")


def _print_leakage(terminal: Terminal, comparisons: list[Comparison]) -> None:
    from fedforest.cli.leakage_page import summarise

    for title, details, _ in comparisons:
        if details.leakage is not None:
            for line in summarise(details.leakage):
                terminal.out.print(line.replace("learned what", f"learned what: {title}"))


def _keep_up(profile: Path, folder: Path) -> None:
    """Until Ctrl-C, with what to try."""
    typer.echo(
        f"\nThe federation stays up until Ctrl-C. In another terminal:\n\n"
        f"  export FEDFOREST_PROFILE={profile}\n"
        f"  fedforest runs list\n"
        f"  fedforest runs show strips --leakage\n"
        f"  fedforest train {folder / 'strips.toml'} --watch\n"
        f"  fedforest export scans --format onnx --out scans.onnx\n"
        f"  fedforest coordinator parties --home {folder / 'coordinator'}\n"
        f"  fedforest party data list --home {folder / 'amsterdam'}\n"
    )
    while True:
        time.sleep(3600.0)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Whoever ends the demo politely sets its clearing up in motion, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
