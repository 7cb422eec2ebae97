"""`fedforest runs prune` and `fedforest party prune`: delete what is old and of no use any more.

Both say what they would delete, and do it only with --yes. The egress ledger and the budgets of
epsilon are never pruned.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedforest.cli.retention.run_filter import DataSet, Name, Older, States, User, make_filter
from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal, read_duration
from fedforest.reports.formats import format_bytes, format_time

STANDARD_AGE = "90d"
_DoIt = Annotated[bool, typer.Option("--yes", "-y", help="Delete; without it nothing is.")]
_Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="runs, alignments or models; may repeat. All by default."),
]


def prune_runs(  # noqa: PLR0913, PLR0917 - options of a command
    older_than: Older = STANDARD_AGE,
    states: States = None,
    user: User = "",
    name: Name = "",
    data: DataSet = "",
    yes: _DoIt = False,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Delete old runs at the coordinator: files, and their part of the history.

    Without --yes it only says which. Cancelled and failed runs by default; a finished one loses its
    model, which is withdrawn, and must be asked for: --state finished.

    Example: fedforest runs prune

    Example: fedforest runs prune --older-than 30d --state cancelled --yes
    """
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import PruneRuns
    from fedforest.runtime.messages.results import RunList

    which = make_filter(states or ["cancelled", "failed"], user, name, data, older_than)
    with Federation(choose_profile(profile)) as federation:
        found = federation.ask(PruneRuns(which, deletes=yes), RunList).runs
    terminal = Terminal(as_json, quiet)
    if as_json:
        gone = [{"run": run.run, "name": run.name, "state": run.state} for run in found]
        terminal.show_json({"deleted": yes, "runs": gone})
        return
    for run in found:
        typer.echo(f"{run.run[:12]}  {run.name or '-':20}  {run.state}  {format_time(run.created)}")
    _tell(terminal, len(found), "runs", yes=yes)


def prune_party(  # noqa: PLR0913, PLR0917 - options of a command
    home: Home,
    older_than: Older = STANDARD_AGE,
    kinds: _Kinds = None,
    yes: _DoIt = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Delete what a party keeps of runs that are long over, of old alignments, and of old models.

    Without --yes it only says what. Runs: journals that no coordinator ended, and agreements that
    scores were checked by. Alignments: which rows were common, unless a run still needs them.
    Models: the files of withdrawn ones. Budgets of epsilon and the egress ledger stay.

    Example: fedforest party prune --home ./bank

    Example: fedforest party prune --older-than 30d --kind runs --yes --home ./bank
    """
    from fedforest.runtime.party.retention.pruning import KINDS, find_old, prune

    unknown = sorted(set(kinds or ()) - set(KINDS))
    if unknown:
        raise typer.BadParameter(f"it is one of {', '.join(KINDS)}", param_hint="--kind")
    found = find_old(home, read_duration(older_than, "--older-than"), kinds or KINDS)
    if yes:
        prune(home, found)
    terminal = Terminal(as_json, quiet)
    if as_json:
        described: list[dict[str, Any]] = [old.to_json() for old in found]
        terminal.show_json({"deleted": yes, "found": described})
        return
    for old in found:
        state = "in use" if old.is_in_use else format_bytes(old.n_bytes)
        typer.echo(f"{old.kind:10}  {old.id}  {format_time(old.at)}  {state}")
    _tell(terminal, sum(not old.is_in_use for old in found), "things", yes=yes)


def _tell(terminal: Terminal, n_found: int, what: str, *, yes: bool) -> None:
    if not n_found:
        terminal.say("There is nothing to delete.")
    elif yes:
        terminal.say(f"{n_found} {what} are deleted.")
    else:
        terminal.say(f"{n_found} {what} would be deleted; say --yes to do it.")
