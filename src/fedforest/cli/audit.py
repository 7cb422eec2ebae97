"""`fedforest audit`: what left a party, whether the record of it is whole, and who learned what."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fedforest.cli.services import Home
from fedforest.printable import printable, printable_lines

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Run = Annotated[str, typer.Argument(help="The id of a run; its first letters are enough.")]

audit = typer.Typer(help="What left a party, for its auditors.", no_args_is_help=True)


@audit.callback()
def audit_commands() -> None:
    """Show what left a party, for its auditors; sends nothing."""


@audit.command("verify")
def verify(
    home: Home,
    expect: Annotated[
        str, typer.Option(help="An end that an earlier check printed, NUMBER:HASH.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check that no record of a party's ledger was changed, removed, moved or cut off.

    Keep the end it prints somewhere else, and give it to a later check by --expect: then nobody
    can have written the ledger anew in between. Exit code 1 where it is damaged.

    Example: fedforest audit verify --home ./bank
    """
    from fedforest.runtime.disclosure.ledger_check import check_ledger, parse_place

    verdict = check_ledger(home, parse_place(expect) if expect else None)
    if as_json:
        typer.echo(json.dumps(verdict.to_json(), indent=2))
    else:
        for line in verdict.damage:
            typer.echo(printable(f"damaged: {line}"))
        for line in verdict.notices:
            typer.echo(printable(f"note: {line}"))
        state = "whole" if verdict.is_whole else "DAMAGED"
        typer.echo(f"{verdict.n_records} records, {state}; end {verdict.to_json()['end']}")
    if not verdict.is_whole:
        raise typer.Exit(1)


@audit.command("summary")
def summary(home: Home, as_json: AsJson = False) -> None:
    """Show what left a party, by run and kind of message: number, bytes, what it reveals.

    Example: fedforest audit summary --home ./bank
    """
    from fedforest.runtime.disclosure.ledger_summary import summarise

    _warn_of_damage(home)
    told = summarise(home)
    if as_json:
        typer.echo(json.dumps([part.to_json() for part in told], indent=2))
        return
    for part in told:
        typer.echo(printable_lines(part.to_text()))


@audit.command("report")
def report(run: Run, home: Home, as_json: AsJson = False) -> None:
    """Show what one run or prediction took from a party, by the party's own ledger.

    Example: fedforest audit report 3f2a --home ./bank
    """
    from fedforest.runtime.disclosure.ledger_summary import report_run
    from fedforest.runtime.party.spending import tell_epsilon

    _warn_of_damage(home)
    told = report_run(home, run)
    epsilon = tell_epsilon(home, told.run)
    if as_json:
        typer.echo(json.dumps({**told.to_json(), "label_epsilon": epsilon}, indent=2))
        return
    typer.echo(printable_lines(told.to_text(with_attacks=True)))
    for data, state in epsilon.items():
        typer.echo(f"  {_say_epsilon(data, state['spent'], state['left'])}")


def _say_epsilon(data: str, spent: float | None, left: float | None) -> str:
    """Say what all runs spent on the labels of a data set; None stands for infinity."""
    has_spent = (
        f"all runs together spent epsilon {spent:.6g} on the labels of {data}"
        if spent is not None
        else f"a run used the labels of {data} without noise, which no epsilon bounds"
    )
    if left is None:
        return f"{has_spent}; its policy sets no ceiling (epsilon_ceiling)"
    return f"{has_spent}; {left:.6g} is left below the ceiling of its policy"


def _warn_of_damage(home: Path) -> None:
    """Figures of a ledger that was changed are nobody's word."""
    from fedforest.runtime.disclosure.ledger_check import check_ledger

    verdict = check_ledger(home)
    if not verdict.is_whole:
        n_records = verdict.n_unreadable
        left_out = f" {n_records} of its records cannot be read and are not counted here;"
        missing = left_out if n_records else ""
        typer.echo(
            f"WARNING: this ledger is damaged;{missing} see `fedforest audit verify`", err=True
        )
