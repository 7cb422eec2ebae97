"""`fedforest train run.toml`: order a training from a federation, and watch it."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal


def train(
    file: Annotated[Path, typer.Argument(help="The run, as docs/how-to/runs.md describes it.")],
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show progress and the result.")
    ] = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Order the training that a file describes.

    Prints the run's id. With --watch, shows its progress and its result; Ctrl-C then leaves the run
    going.

    Example: fedforest train run.toml --watch
    """
    from fedforest.cli.planning.live_plan import say_plan
    from fedforest.errors import FederationError
    from fedforest.estimators.run_files import order_run
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.client.run_files import read_run_file
    from fedforest.runtime.membership.profiles import choose_profile

    terminal = Terminal(as_json, quiet)
    described = read_run_file(file)
    order = order_run(described)
    with Federation(choose_profile(profile)) as federation:
        try:
            say_plan(terminal, federation, order)
            run = federation.begin(order)
            _say_begun(terminal, run, watch=watch)
            if watch:
                from fedforest.cli.run_watch import follow_run
                from fedforest.runtime.messages.orders import WatchRun

                follow_run(terminal, federation, WatchRun(run=run))
        except FederationError as error:
            raise described.point_at(error) from None


def _say_begun(terminal: Terminal, run: str, *, watch: bool) -> None:
    """The id of a run is the result of ordering it; while it is watched, it is talk."""
    if terminal.as_json:
        terminal.show_json({"event": "accepted", "run": run})
    elif watch:
        terminal.say(f"run {run}")
    else:
        typer.echo(run)
        terminal.say("It goes on at the coordinator: fedforest runs watch " + run[:12])
