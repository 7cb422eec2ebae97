"""`fedforest plan run.toml`: what a run will cost, before it starts."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedforest.runtime.messages.orders import AnyRun
    from fedforest.runtime.planning.tables import PlannedLine, PlannedTable

_PER_MEGABIT = 125_000.0  # bytes
_NEAR_SECONDS, _NEAR_MEGABITS = 1e-3, 1000.0  # a line that nobody described
_SIZES = "for all parties, or PARTY=NUMBER; may repeat"


def plan(  # noqa: PLR0913, PLR0917 - options of a command
    file: Annotated[Path, typer.Argument(help="The run, as docs/how-to/runs.md describes it.")],
    rows: Annotated[list[str] | None, typer.Option(help=f"Rows, {_SIZES}.")] = None,
    columns: Annotated[list[str] | None, typer.Option(help=f"Columns, {_SIZES}.")] = None,
    classes: Annotated[int, typer.Option(min=2, help="Classes of the label.")] = 2,
    latency: Annotated[
        float | None,
        typer.Option(min=0.0, help="Milliseconds from a party to the coordinator and back."),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(min=1e-6, help="Mbit/s between a party and the coordinator."),
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores of each machine.")] = 1,
    together: Annotated[
        bool, typer.Option("--together", help="All processes run on one machine.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the speed of this machine anew.")
    ] = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Plan a run: its time, and memory and bytes of each role. Nothing is started.

    Without --rows and --columns, the parties of your federation say how large their tables are, and
    the coordinator how fast its lines. The first time, a few seconds of small trainings measure
    this machine; the figures are kept in your cache.

    Example: fedforest plan run.toml

    Example: fedforest plan run.toml --rows 100000 --columns bank=20 --columns shop=15

    Example: fedforest plan run.toml --rows 1000000 --columns 20 --latency 50 --bandwidth 100 --json
    """
    import msgspec

    from fedforest.cli.planning.plan_page import describe_plan, show_plan
    from fedforest.estimators.planning import speeds_for
    from fedforest.estimators.run_files import order_run
    from fedforest.runtime.client.run_files import read_run_file
    from fedforest.runtime.planning.plans import Machines, plan_run
    from fedforest.runtime.planning.tables import PlannedLine, PlannedTables

    terminal = Terminal(as_json, quiet)
    order = order_run(read_run_file(file))
    if rows or columns:
        by_party = _read_tables(order, rows or [], columns or [])
        line = PlannedLine(_NEAR_SECONDS, _NEAR_MEGABITS * _PER_MEGABIT)
    else:
        by_party, line = _ask_tables(order, profile)
    if latency is not None:
        line = msgspec.structs.replace(line, latency_seconds=latency / 1000.0)
    if bandwidth is not None:
        line = msgspec.structs.replace(line, bytes_per_second=bandwidth * _PER_MEGABIT)
    tables = PlannedTables(by_party, classes)
    machines = Machines(line, are_together=together, n_cores=cores)
    planned = plan_run(order, tables, machines, speeds_for(order, classes, anew=calibrate))
    if as_json:
        terminal.show_json(describe_plan(planned))
    else:
        show_plan(terminal, planned)


def _ask_tables(order: AnyRun, profile: str) -> tuple[dict[str, PlannedTable], PlannedLine]:
    """Ask the federation for the sizes of tables, and the speed of its slowest line."""
    from fedforest.estimators.live_plans import ask_tables
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile

    with Federation(choose_profile(profile)) as federation:
        return ask_tables(federation.ask, order)


def _read_tables(
    order: AnyRun, rows: Sequence[str], columns: Sequence[str]
) -> dict[str, PlannedTable]:
    """Return the size of each party's table from the options."""
    from fedforest.runtime.planning.tables import PlannedTable

    n_rows, n_columns = _read_sizes("--rows", rows, order), _read_sizes("--columns", columns, order)
    return {party: PlannedTable(n_rows[party], n_columns[party]) for party in order.data}


def _read_sizes(option: str, texts: Sequence[str], order: AnyRun) -> dict[str, int]:
    """Read `NUMBER` for all parties, and `PARTY=NUMBER` for single ones."""
    sizes: dict[str, int] = {}
    for text in sorted(texts, key=lambda text: "=" in text):
        party, _, number = text.rpartition("=")
        if party and party not in order.data:
            raise typer.BadParameter(f"{party!r} is none of the run's parties", param_hint=option)
        if not number.isdigit():
            raise typer.BadParameter(
                f"{text!r} is neither NUMBER nor PARTY=NUMBER", param_hint=option
            )
        sizes |= dict.fromkeys([party] if party else order.data, int(number))
    missing = next((party for party in order.data if party not in sizes), None)
    if missing is not None:
        raise typer.BadParameter(
            f"say how large the table of {missing!r} is: {option} {missing}=NUMBER",
            param_hint=option,
        )
    return sizes
