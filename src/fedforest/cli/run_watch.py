"""Watching a run from a terminal until it ends, pauses, or whoever watches has seen enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from fedforest.cli.progress import watching
from fedforest.cli.run_page import show_end
from fedforest.reports.facts import SHORT_ID
from fedforest.reports.progress import RunProgress

if TYPE_CHECKING:
    from fedforest.cli.terminal import Terminal
    from fedforest.errors import FederationError
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.orders import EndRunEarly, ResumeRun, WatchRun

_INTERRUPTED = 130


def follow_run(
    terminal: Terminal, federation: Federation, order: WatchRun | ResumeRun | EndRunEarly
) -> None:
    """Show a run's progress and then its result; Ctrl-C leaves the run as it is."""
    from fedforest.errors import FederationError
    from fedforest.runtime.messages.orders import ShowRun
    from fedforest.runtime.messages.results import RunDetails
    from fedforest.runtime.trainings.registry import training_named

    run = order.run
    details = federation.ask(ShowRun(run=run), RunDetails)
    kind: type[Any] = training_named(details.state.protocol).result_type
    parameters = details.order.get("parameters", {})
    progress = RunProgress(parameters.get("n_estimators", 0), parameters.get("max_depth"))
    try:
        with watching(terminal, run, progress) as tell:
            federation.watch(order, kind, tell)
    except KeyboardInterrupt:
        terminal.say(f"\nThe run goes on at the coordinator.{explain(run)}")
        raise typer.Exit(_INTERRUPTED) from None
    except FederationError as error:
        terminal.say(_say_what_next(federation, run, error))
        raise
    show_end(terminal, federation.ask(ShowRun(run=run), RunDetails))


def _say_what_next(federation: Federation, run: str, error: FederationError) -> str:
    """Tell the state of a run that ended in an error, and the commands that help."""
    from fedforest.errors import TransportError
    from fedforest.runtime.messages.orders import ShowRun
    from fedforest.runtime.messages.results import RunDetails

    if isinstance(error, TransportError):
        return f"Nothing of the run is lost.{explain(run)}"
    state = federation.ask(ShowRun(run=run), RunDetails).state.state
    if state == "failed":
        return (
            "The run was refused. Change it and order it anew, or have the party change its side "
            f"and go on with it:\n  fedforest runs resume {run[:SHORT_ID]}"
        )
    return "" if state == "cancelled" else f"Nothing of the run is lost.{explain(run)}"


def explain(run: str) -> str:
    """Tell the commands that apply to a run."""
    short = run[:SHORT_ID]
    return (
        f"\n  fedforest runs watch {short}    watch it again"
        f"\n  fedforest runs resume {short}   go on with it, once it is paused"
        f"\n  fedforest runs cancel {short}   give it up"
    )
