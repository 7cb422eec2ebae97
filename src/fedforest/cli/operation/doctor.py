"""`fedforest doctor`: find what is wrong with an installation or a role, and say what to do."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from fedforest.cli.terminal import AsJson, Quiet, Terminal

_MARKS = {"good": "ok     ", "warning": "WARNING", "problem": "PROBLEM"}


def doctor(
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", help="The folder of a coordinator or party.", exists=True, file_okay=False
        ),
    ] = None,
    profile: Annotated[
        str,
        typer.Option("--profile", "-p", help="Name or folder of a user's profile."),
    ] = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Examine this machine and a role on it: installation, keys, disk, sources, connection.

    For each finding it says what is so, why that matters and what to do. Every source of a party is
    read once; nothing is changed. It ends with exit code 1 if there is a problem.

    Example: fedforest doctor

    Example: fedforest doctor --home ./bank

    Example: fedforest doctor --profile clinics --json
    """
    import msgspec

    from fedforest.runtime.doctor.examination import examine
    from fedforest.runtime.membership.homes import find_profile

    if home is not None and profile:
        raise typer.BadParameter("--home and --profile name two folders; leave one out")
    findings = examine(find_profile(profile) if profile else home)
    terminal, n_problems = Terminal(as_json, quiet), 0
    told = []
    for finding in findings:
        n_problems += finding.state == "problem"
        if as_json:
            told.append(msgspec.to_builtins(finding))
        elif not (quiet and finding.state == "good"):
            typer.echo(f"{_MARKS[finding.state]} {finding.topic}: {finding.what}")
            if finding.state != "good":
                typer.echo(f"        why:  {finding.why}\n        cure: {finding.cure}")
    if as_json:
        terminal.show_json({"healthy": n_problems == 0, "findings": told})
    else:
        terminal.say(f"{n_problems} problems" if n_problems else "no problems")
    if n_problems:
        raise typer.Exit(1)
