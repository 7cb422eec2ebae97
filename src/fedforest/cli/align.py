"""`fedforest align`, and `alignments` of a federation and of a party: rows in common, by their ids.

What a party keeps is listed and removed on its owner's machine; the coordinator is not asked.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal
from fedforest.reports.formats import format_time

if TYPE_CHECKING:
    from fedforest.runtime.client.connection import Federation

alignments = typer.Typer(help="Standing alignments of the federation.", no_args_is_help=True)
party_alignments = typer.Typer(help="Standing alignments of a party.", no_args_is_help=True)


@alignments.callback()
def alignments_commands() -> None:
    """Standing alignments of the federation: made and extended by `fedforest align`."""


def align(  # noqa: PLR0913, PLR0917 - options of a command
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", help="PARTY=DATA_SET for each party; repeat it."),
    ] = None,
    method: Annotated[
        Literal["keyed-hash", "psi"] | None,
        typer.Option(help="How ids are compared: keyed-hash, or psi, which nobody can guess at."),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Keep the alignment under this name, for later runs; it is by psi.")
    ] = "",
    days: Annotated[
        int | None, typer.Option(min=1, help="Days that a named alignment lives; 30 by default.")
    ] = None,
    extend: Annotated[
        str, typer.Option(help="Compare the ids that are new since this alignment was made.")
    ] = "",
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Count the rows that parties have in common, by their ids.

    Ids stay where they are; each party keeps which of its rows they are.

    Example: fedforest align --data bank=customers --data shop=baskets

    Example: fedforest align --name customers --days 90 --data bank=customers --data shop=baskets

    Example: fedforest align --extend customers
    """
    from fedforest.cli.predict import read_pairs
    from fedforest.cli.progress import watching
    from fedforest.reports.facts import describe_alignment
    from fedforest.reports.progress import RunProgress
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import AlignRows
    from fedforest.runtime.messages.results import Alignment

    is_kept = bool(name or extend)
    terminal = Terminal(as_json, quiet)
    with Federation(choose_profile(profile)) as federation:
        takes_known = bool(extend) and not data
        pairs = (
            read_standing(federation, extend, "--extend") if takes_known else read_pairs(data or [])
        )
        order = AlignRows(
            data=pairs,
            method=method or ("psi" if is_kept else "keyed-hash"),
            name=name,
            days=days,
            extends=extend,
        )
        # with --json, standard output has the result alone
        with watching(Terminal(quiet=quiet or as_json), "", RunProgress(1)) as tell:
            alignment = federation.train(order, Alignment, tell)
    if as_json:
        terminal.show_json(
            {
                "common": alignment.n_common,
                "rows": alignment.n_rows,
                "without_an_id_of_their_own": alignment.n_duplicates,
                "alignment": alignment.id,
                "standing": alignment.standing or None,
                "expires": alignment.expires,
            }
        )
    else:
        typer.echo(describe_alignment(alignment))


@alignments.command("list")
def list_alignments(profile: Profile = "", as_json: AsJson = False) -> None:
    """List the standing alignments: whose ids, how many in common, and until when.

    Example: fedforest alignments list
    """
    import msgspec

    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import ListAlignments
    from fedforest.runtime.messages.results import AlignmentList

    with Federation(choose_profile(profile)) as federation:
        known = federation.ask(ListAlignments(), AlignmentList).alignments
    if as_json:
        Terminal(as_json).show_json([msgspec.structs.asdict(each) for each in known])
        return
    for each in known:
        pairs = ", ".join(f"{party}={name}" for party, name in each.data.items())
        until = format_time(each.expires)
        typer.echo(f"{each.name}: {each.n_common:,} ids of {pairs}; until {until}")
    if not known:
        typer.echo("There is no standing alignment.")


@alignments.command("remove")
def remove_alignment(
    name: Annotated[str, typer.Argument(help="The name of the standing alignment.")],
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove a standing alignment, with its keys, at the coordinator and at all parties.

    Example: fedforest alignments remove customers
    """
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import RemoveAlignment
    from fedforest.runtime.messages.results import AlignmentList

    with Federation(choose_profile(profile)) as federation:
        away = federation.ask(RemoveAlignment(name), AlignmentList).away
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"removed": name, "away": away})
        return
    terminal.say(f"The standing alignment {name} is removed.")
    if away:
        terminal.say(
            f"Not connected: {', '.join(away)}. They keep their keys of it until its time is over, "
            "or until they say fedforest party alignments remove."
        )


def read_standing(federation: Federation, name: str, option: str = "--standing") -> dict[str, str]:
    """Return the data sets that a standing alignment was made of."""
    from fedforest.runtime.messages.orders import ListAlignments
    from fedforest.runtime.messages.results import AlignmentList

    known = federation.ask(ListAlignments(), AlignmentList).alignments
    found = {each.name: each.data for each in known}
    if name not in found:
        names = ", ".join(found) or "none"
        raise typer.BadParameter(
            f"there is no standing alignment {name!r}; there are: {names}", param_hint=option
        )
    return found[name]


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


@party_alignments.command("ids")
def write_aligned_ids(  # noqa: PLR0913, PLR0917 - options of a command
    alignment: Annotated[
        str, typer.Argument(help="The id of an alignment, as predict --json says.")
    ],
    data: Annotated[str, typer.Option("--data", "-d", help="The data set that was aligned.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .parquet or .csv file.")],
    home: Home,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the ids of aligned rows, in the order in which they were trained on or predicted.

    Example: fedforest party alignments ids ID --data customers --out ids.csv --home ./bank
    """
    from fedforest.cli.prediction_file import check_name, write_table
    from fedforest.runtime.party.aligned_ids import read_ids

    check_name(out)
    ids = read_ids(home, data, alignment)
    write_table(ids, out)
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json({"rows": ids.num_rows, "file": str(out)})
    else:
        terminal.say(f"{ids.num_rows:,} ids, in {out}")


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
