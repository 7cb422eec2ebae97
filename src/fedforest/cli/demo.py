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
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import Quiet, Terminal
from fedforest.extras import import_extra
from fedforest.reports.formats import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedforest.cli.demonstration.letters import Letters
    from fedforest.cli.demonstration.report import Comparison
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.results import RunDetails


_PICTURE = Path("fedforest-demo.png")


def demo(  # noqa: PLR0913, PLR0917 - options of a command
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the federation up until Ctrl-C.")
    ] = False,
    opens: Annotated[
        bool, typer.Option("--open", help="With --keep: end on the dashboard, in your browser.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Where the picture goes, by default fedforest-demo.png if matplotlib is "
            "installed; --in-process draws one only if asked."
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

    Example: fedforest demo --keep --open
    """
    if opens and (in_process or not keep):
        raise typer.BadParameter("the dashboard stays up with --keep only", param_hint="--open")
    if opens:
        import_extra("uvicorn", "the dashboard")
    if plot is not None:
        import_extra("matplotlib", "a picture")  # rather now than after all the work
    if in_process:
        from fedforest.cli.demonstration.in_process import demonstrate

        demonstrate(rows, trees, seed, plot)
        return
    with _interrupted_by_sigterm(), ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="fedforest-demo-"))
        stack.callback(_remove, folder)
        if plot is None and find_spec("matplotlib"):
            plot = _PICTURE
        _demonstrate(Terminal(quiet=quiet), folder, plot, seed, keep=keep, opens=opens)


def _demonstrate(  # noqa: PLR0913 - what the options say
    terminal: Terminal, folder: Path, plot: Path | None, seed: int, *, keep: bool, opens: bool
) -> None:
    from fedforest.cli.demonstration.federation import find_ports, running_federation
    from fedforest.cli.demonstration.letters import N_NEW, draw_letters
    from fedforest.cli.demonstration.report import draw, make_table
    from fedforest.cli.demonstration.story import predict_new
    from fedforest.kernels.compiled.preparation import prepare
    from fedforest.runtime.client.connection import Federation

    prepare()
    started = time.perf_counter()
    letters = draw_letters(seed)
    terminal.say(
        "Three sorting offices scanned strips of the same letters, a third of each picture. Each "
        "misses some letters.\nStarting a coordinator and three parties, each a process: keys, "
        "certificates, fingerprints, mutual TLS."
    )
    port, *others = find_ports(1 + len(letters.tables)) if opens else (None,)
    ports = dict(zip(letters.tables, others, strict=True)) if opens else None
    with (
        running_federation(folder, letters.tables, port, ports) as profile,
        Federation(profile) as federation,
    ):
        terminal.say(f"Connected after {format_seconds(time.perf_counter() - started)}.")
        comparisons = _compare(terminal, federation, folder, letters, seed)
        terminal.out.print(make_table(comparisons))
        _print_rows(terminal, comparisons[0].details)
        _print_risks(terminal, comparisons)
        right = predict_new(federation, comparisons[0].details.state.run, folder, letters)
        typer.echo(f"Of {N_NEW} letters that came later, {right:.1%} are read right.")
        if plot is None:
            terminal.say("There is no picture, because matplotlib is not installed.")
        else:
            draw([comparison.panel() for comparison in comparisons], plot)
            typer.echo(f"The picture is {plot}.")
        terminal.say(f"All of it took {format_seconds(time.perf_counter() - started)}.")
        if port is not None:
            _open_dashboard(folder, port, ports or {})
        if keep:
            _keep_up(profile, folder)


def _compare(
    terminal: Terminal, federation: Federation, folder: Path, letters: Letters, seed: int
) -> list[Comparison]:
    """Both runs, each beside the forest of the pooled table, scored on the same letters."""
    from fedforest.cli.demonstration.report import Comparison
    from fedforest.cli.demonstration.story import (
        carry_out,
        pool_scans,
        pool_strips,
        write_run_files,
    )

    strips, scans = write_run_files(folder, seed)
    terminal.say("A vertical run: rows are matched by hidden ids, then trees grow.")
    vertical = carry_out(federation, strips, terminal)
    terminal.say("A horizontal run: the coordinator sees masked sums only.")
    horizontal = carry_out(federation, scans, terminal)
    terminal.say("For comparison: forests of all tables in one place, which no office has.")
    pooled = pool_strips(letters, folder, vertical, strips)
    return [
        Comparison("strips of the same letters", vertical, pooled),
        Comparison("letters of their own", horizontal, pool_scans(letters, horizontal, scans)),
    ]


def _print_rows(terminal: Terminal, details: RunDetails) -> None:
    alignment = details.alignment
    if alignment is not None:
        counts = ", ".join(f"{party} {n:,}" for party, n in alignment.n_rows.items())
        terminal.out.print(f"All offices have {alignment.n_common:,} letters, of {counts}.")


def _print_risks(terminal: Terminal, comparisons: list[Comparison]) -> None:
    from fedforest.cli.run_page import make_risk_table

    for title, details, _ in comparisons:
        if details.leakage is not None:
            heading = f"What could be worked out: {title}"
            terminal.out.print(make_risk_table(details.leakage, heading))
    terminal.say("No raw row left its office. `fedforest runs show RUN --leakage` tells all.")


def _open_dashboard(folder: Path, port: int, party_ports: dict[str, int]) -> None:
    """Open the pages of the coordinator in a browser, if there is one; name those of parties."""
    import webbrowser

    from fedforest.cli.demonstration.federation import login_link

    link = login_link(folder / "coordinator", port, "analyst")
    typer.echo(f"\nThe dashboard, for whoever has this address: {link}")
    for party, own in party_ports.items():
        typer.echo(
            f"The pages of {party}, for the owner of its data: {login_link(folder / party, own)}"
        )
    webbrowser.open(link)


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
    """Treat SIGTERM as Ctrl-C, so that the demo clears up after itself."""

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
