"""`fedforest plan run.toml`: what a run will cost, before it starts."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import AsJson, Quiet, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedforest.runtime.messages.orders import AnyRun
    from fedforest.runtime.planning.tables import PlannedTable

_PER_MEGABIT = 125_000.0  # bytes
_SIZES = "for all parties, or PARTY=NUMBER; may repeat"


def plan(  # noqa: PLR0913, PLR0917 - options of a command
    file: Annotated[Path, typer.Argument(help="The run, as docs/how-to/runs.md describes it.")],
    rows: Annotated[list[str] | None, typer.Option(help=f"Rows, {_SIZES}.")] = None,
    columns: Annotated[list[str] | None, typer.Option(help=f"Columns, {_SIZES}.")] = None,
    classes: Annotated[int, typer.Option(min=2, help="Classes of the label.")] = 2,
    latency: Annotated[
        float, typer.Option(min=0.0, help="Milliseconds from a party to the coordinator and back.")
    ] = 1.0,
    bandwidth: Annotated[
        float, typer.Option(min=1e-6, help="Mbit/s between a party and the coordinator.")
    ] = 1000.0,
    cores: Annotated[int, typer.Option(min=1, help="Cores of each machine.")] = 1,
    together: Annotated[
        bool, typer.Option("--together", help="All processes run on one machine.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the speed of this machine anew.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Plan a run: its time, and memory and bytes of each role. Nothing is started.

    The first time, a few seconds of small trainings measure this machine; the figures are kept in
    your cache.

    Example: fedforest plan run.toml --rows 100000 --columns bank=20 --columns shop=15

    Example: fedforest plan run.toml --rows 1000000 --columns 20 --latency 50 --bandwidth 100 --json
    """
    from fedforest.cli.planning.plan_page import describe_plan, show_plan
    from fedforest.estimators.planning import speeds_for
    from fedforest.estimators.run_files import order_run
    from fedforest.runtime.client.run_files import read_run_file
    from fedforest.runtime.planning.plans import Machines, plan_run
    from fedforest.runtime.planning.tables import PlannedLine, PlannedTables

    terminal = Terminal(as_json, quiet)
    order = order_run(read_run_file(file))
    tables = PlannedTables(_read_tables(order, rows or [], columns or []), classes)
    line = PlannedLine(latency / 1000.0, bandwidth * _PER_MEGABIT)
    machines = Machines(line, are_together=together, n_cores=cores)
    planned = plan_run(order, tables, machines, speeds_for(order, classes, anew=calibrate))
    if as_json:
        terminal.show_json(describe_plan(planned))
    else:
        show_plan(terminal, planned)


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
