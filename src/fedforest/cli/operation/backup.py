"""Copies of the folders of coordinator and party: make, restore, and decide what they forgot."""

from pathlib import Path
from typing import Annotated

import typer

from fedforest.cli.services import Home
from fedforest.cli.terminal import AsJson, Quiet, Terminal, Yes, confirm

Archive = Annotated[Path, typer.Argument(help="The file of the copy. It holds private keys.")]
NewHome = Annotated[Path, typer.Option("--home", help="A new folder for the role.")]
Spent = Annotated[
    list[str] | None,
    typer.Option("--spent", metavar="DATA=EPSILON", help="Book this much; may be repeated."),
]


def back_up_coordinator(archive: Archive, home: Home, as_json: AsJson = False) -> None:
    """Copy the coordinator's folder into one file, also while it runs.

    The file holds the key of the federation's authority: encrypt it before it leaves the machine.

    Example: fedforest coordinator backup monday.tar.gz --home ./coordinator
    """
    from fedforest import __version__
    from fedforest.runtime.recovery.backup import make_backup

    made = make_backup(home, archive, "coordinator", __version__)
    _tell_copy(len(made.files), len(made.descriptions), archive, as_json=as_json)


def back_up_party_folder(archive: Archive, home: Home, as_json: AsJson = False) -> None:
    """Copy the party's folder, but for the tables in it, into one file, also while it runs.

    The file holds the party's keys: encrypt it before it leaves the machine.

    Example: fedforest party backup monday.tar.gz --home ./bank
    """
    from fedforest import __version__
    from fedforest.runtime.party.retention.restoring import back_up_party

    made = back_up_party(home, archive, __version__)
    _tell_copy(len(made.files), len(made.descriptions), archive, as_json=as_json)


def restore_coordinator_folder(archive: Archive, home: NewHome, as_json: AsJson = False) -> None:
    """Make a coordinator's folder out of a copy.

    Runs that were under way end, with the reason. No user is let in before all parties have said
    whom they know to be revoked: start the coordinator, or decide with `coordinator settle`.

    Example: fedforest coordinator restore monday.tar.gz --home ./coordinator
    """
    from fedforest.runtime.coordinator.retention.restoring import restore_coordinator

    restored = restore_coordinator(archive, home)
    _tell_restored(restored.moment, restored.runs, as_json=as_json)
    if not as_json:
        typer.echo("Users are let in when all parties have said who was revoked since.")


def restore_party_folder(archive: Archive, home: NewHome, as_json: AsJson = False) -> None:
    """Make a party's folder out of a copy; its tables are put back by their owner.

    The party refuses everything until its owner has decided what was spent, withdrawn and erased
    since the copy: `fedforest party settle`.

    Example: fedforest party restore monday.tar.gz --home ./bank
    """
    from fedforest.runtime.party.retention.restoring import restore_party

    restored = restore_party(archive, home)
    _tell_restored(restored.moment, restored.runs, as_json=as_json)
    if not as_json:
        typer.echo(f"Nothing is answered before: fedforest party settle --home {home}")


def settle_coordinator(home: Home, yes: Yes = False, as_json: AsJson = False) -> None:
    """Let users into a restored coordinator though some parties have not said who was revoked.

    Revoke again by yourself whom you revoked since the copy: `fedforest coordinator revoke`.

    Example: fedforest coordinator settle --home ./coordinator
    """
    from fedforest.errors import ConfigurationError
    from fedforest.runtime.recovery.backup import read_restored, settle

    restored = read_restored(home)
    if restored is None:
        raise ConfigurationError(f"{home} was not restored, or all is decided already")
    confirm(f"Is everybody revoked again who was since {restored.moment}?", yes=yes)
    settle(home)
    if as_json:
        Terminal(as_json).show_json({"settled": str(home)})
        return
    typer.echo("Users are let in.")


def settle_party(
    home: Home,
    spent: Spent = None,
    yes: Yes = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let a restored party answer again, once its owner has decided what it cannot know.

    Shows until when the copy knows, and what epsilon was spent by then. Book what may have been
    spent since with --spent: the coordinator's `runs list --data` names the runs. Withdraw models
    and erase rows again before.

    Example: fedforest party settle --spent loans=2.5 --home ./bank
    """
    from fedforest.runtime.party.retention.restoring import decide, describe_uncertainty

    unknown, booked = describe_uncertainty(home), _read_spent(spent or [])
    terminal = Terminal(as_json, quiet)
    terminal.say(f"The copy was made {unknown['copied']}. What was spent of labels by then:")
    for data, told in unknown["epsilon"].items():
        limit = "no ceiling" if told["ceiling"] is None else f"of {told['ceiling']:g}"
        terminal.say(
            f"  {data}: epsilon {told['spent']:g}, {limit}; now +{booked.get(data, 0.0):g}"
        )
    confirm("Are models withdrawn and rows erased again, and is this all that was spent?", yes=yes)
    decide(home, booked)
    if as_json:
        terminal.show_json({"settled": str(home), "booked": booked, **unknown})
        return
    terminal.say("The party answers again.")


def _read_spent(texts: list[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        data, _, number = text.partition("=")
        try:
            found[data] = float(number)
        except ValueError:
            found[data] = -1.0
        if not 0.0 <= found[data] < float("inf"):
            raise typer.BadParameter("it is DATA=EPSILON, such as loans=2.5", param_hint="--spent")
    return found


def _tell_copy(n_files: int, n_runs: int, archive: Path, *, as_json: bool) -> None:
    if as_json:
        told = {"file": str(archive), "files": n_files, "runs_under_way": n_runs}
        Terminal(as_json).show_json(told)
        return
    typer.echo(f"{archive} holds {n_files} files, private keys among them: encrypt it.")
    if n_runs:
        typer.echo(f"{n_runs} runs are under way; they would end if this copy is restored.")


def _tell_restored(moment: str, runs: list[str], *, as_json: bool) -> None:
    if as_json:
        Terminal(as_json).show_json({"copied": moment, "ended_runs": runs})
        return
    typer.echo(f"Restored as it was {moment}; {len(runs)} runs that were under way are over.")
    for run in runs:
        typer.echo(f"  {run}")
