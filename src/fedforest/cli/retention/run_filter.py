"""Options that choose runs: by state, user, age, data set and name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import read_duration

if TYPE_CHECKING:
    from fedforest.runtime.messages.orders import RunFilter

States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help="queued, running, paused, failed, finished or cancelled; may repeat.",
        show_default=False,
    ),
]
User = Annotated[str, typer.Option("--user", help="The user who ordered it.")]
Name = Annotated[str, typer.Option("--name", help="Its name; * stands for any letters.")]
DataSet = Annotated[str, typer.Option("--data", help="A data set of any of its parties.")]
Older = Annotated[str, typer.Option("--older-than", help="Its age, such as 30d, 12h or 45m.")]
Newer = Annotated[str, typer.Option("--newer-than", help="The same, the other way round.")]


def make_filter(  # noqa: PLR0913, PLR0917 - the options of two commands
    states: list[str] | None,
    user: str,
    name: str,
    data: str,
    older: str = "",
    newer: str = "",
) -> RunFilter:
    """Make what the coordinator chooses runs by; raises `ConfigurationError` for a wrong state."""
    import msgspec

    from fedforest.errors import ConfigurationError
    from fedforest.runtime.messages.orders import RunFilter

    chosen = {
        "states": states or [],
        "user": user,
        "name": name,
        "data": data,
        "before": _moment(older, "--older-than"),
        "after": _moment(newer, "--newer-than"),
    }
    try:
        return msgspec.convert(chosen, RunFilter)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"runs cannot be chosen so: {error}") from None


def _moment(age: str, option: str) -> float | None:
    return time.time() - read_duration(age, option) if age else None
