"""The output of commands: results to standard output, everything else to standard error.

With `--json` results are JSON and nothing else is printed to standard output; with `--quiet` there
is no talk beside results. Colours follow the terminal and `NO_COLOR`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.printable import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FILE_WIDTH = 160  # of tables that no terminal cuts off

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Profile = Annotated[
    str,
    typer.Option("--profile", "-p", help="Name or folder of your profile.", show_default=False),
]


@dataclass(frozen=True)
class Terminal:
    """The streams that a command prints to."""

    as_json: bool = False
    quiet: bool = False

    @cached_property
    def out(self) -> Console:
        """Standard output, for tables."""
        from rich.console import Console

        is_terminal = sys.stdout.isatty()
        width = None if is_terminal or "COLUMNS" in os.environ else _FILE_WIDTH
        return Console(highlight=False, soft_wrap=not is_terminal, width=width)

    @cached_property
    def err(self) -> Console:
        """Standard error, for progress."""
        from rich.console import Console

        return Console(highlight=False, stderr=True, soft_wrap=not sys.stderr.isatty())

    def say(self, text: str) -> None:
        """Something that helps a person and is no result."""
        if text and not self.quiet:
            typer.echo(printable_lines(text), err=True)

    def show_json(self, value: Any) -> None:
        """A result, on one line."""
        typer.echo(json.dumps(value, allow_nan=False, default=str))


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone; without a terminal, --yes must say so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("this cannot be undone; say --yes", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)


def read_duration(text: str, option: str) -> float:
    """Read an age or a time to live, as an option has it, in seconds."""
    matched = re.fullmatch(r"([0-9]{1,5})([smhd])", text)
    if matched is None:
        raise typer.BadParameter("it is a number and s, m, h or d, such as 12h", param_hint=option)
    return float(matched[1]) * _UNITS[matched[2]]
