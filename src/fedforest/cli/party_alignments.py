"""`fedforest party alignments`: the standing alignments that a party keeps keys of.

Everything happens on the owner's machine; the coordinator is not asked.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Quiet, Terminal, format_time

party_alignments = typer.Typer(help="Standing alignments of a party.", no_args_is_help=True)


@party_alignments.callback()
def party_alignments_commands() -> None:
    """Standing alignments of a party: keys and points that later alignments go on with."""


@party_alignments.command("list")
def list_own_alignments(home: Home, as_json: AsJson = False) -> None:
    """List the standing alignments that this party keeps.

    Example: fedforest party alignments list --home ./bank
    """
    from fedforest.runtime.party.standing_alignments import PartyStandingAlignments

    known = [_describe(version, file) for version, file in PartyStandingAlignments(home).files()]
    if as_json:
        Terminal(as_json).show_json(known)
        return
    for each in known:
        others = ", ".join(each["parties"])
        typer.echo(
            f"{each['name']}: {each['ids']:,} ids of {each['data']}, {each['common']:,} common to "
            f"{others}; until {format_time(each['expires'])} ({each['alignment']})"
        )
    if not known:
        typer.echo("This party keeps no standing alignment.")


@party_alignments.command("remove")
def remove_own_alignment(
    name: Annotated[str, typer.Argument(help="The name of the standing alignment.")],
    home: Home,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove a standing alignment here: no run can use or extend it any more.

    Example: fedforest party alignments remove customers --home ./bank
    """
    from fedforest.errors import ConfigurationError
    from fedforest.runtime.party.standing_alignments import PartyStandingAlignments

    store = PartyStandingAlignments(home)
    found = [version for version, file in store.files() if file.name == name]
    if not found:
        raise ConfigurationError(f"this party keeps no standing alignment {name!r}")
    for version in found:
        store.remove(version)
    if as_json:
        Terminal(as_json).show_json({"removed": name})
    elif not quiet:
        typer.echo(f"The keys of the standing alignment {name} are removed.")


def _describe(version: str, file: Any) -> dict[str, Any]:
    return {
        "name": file.name,
        "data": file.data,
        "parties": list(file.ids.parties),
        "ids": file.ids.n_own,
        "common": len(file.ids.read_common()),
        "created": file.created,
        "expires": file.expires,
        "alignment": version,
    }
