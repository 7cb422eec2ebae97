"""`fedforest doctor`: find what is wrong with an installation or a role, and say what to do."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import AsJson, Quiet, Terminal
from fedforest.printable import printable

if TYPE_CHECKING:
    from fedforest.runtime.doctor.findings import Diagnosis

_MARKS = {"good": "ok     ", "warning": "WARNING", "problem": "PROBLEM"}
_STYLES = {"good": "green", "warning": "bold yellow", "problem": "bold red"}
_INDENT = " " * 8


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
    folder = find_profile(profile) if profile else home
    findings = examine(None if folder is None else folder.resolve())
    terminal, n_problems = Terminal(as_json, quiet), 0
    told = []
    for finding in findings:
        n_problems += finding.state == "problem"
        if as_json:
            told.append(msgspec.to_builtins(finding))
        elif not (quiet and finding.state == "good"):
            _print(terminal, finding)
    if as_json:
        terminal.show_json({"healthy": n_problems == 0, "findings": told})
    else:
        count = "1 problem" if n_problems == 1 else f"{n_problems or 'no'} problems"
        terminal.say(count)
    if n_problems:
        raise typer.Exit(1)


def _print(terminal: Terminal, finding: Diagnosis) -> None:
    """Print a finding; at a terminal its lines are broken between words, below their beginning."""
    from textwrap import TextWrapper

    from rich.text import Text

    told = [f"{_MARKS[finding.state]} {finding.topic}: {finding.what}"]
    if finding.state != "good":
        told += [f"{_INDENT}why:  {finding.why}", f"{_INDENT}cure: {finding.cure}"]
    for number, text in enumerate(map(printable, told)):
        lines = TextWrapper(
            terminal.out.width if sys.stdout.isatty() else len(text) + 1,
            subsequent_indent=_INDENT if number == 0 else f"{_INDENT}      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        shown = Text(lines.fill(text))
        if number == 0:
            shown.stylize(_STYLES[finding.state], 0, len(_MARKS[finding.state]))
        terminal.out.print(shown, soft_wrap=True)
