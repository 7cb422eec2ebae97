"""`fedforest align`: find out how many rows parties have in common, before anything is trained."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal


def align(
    data: Annotated[
        list[str], typer.Option("--data", "-d", help="PARTY=DATA_SET for each party; repeat it.")
    ],
    method: Annotated[
        Literal["keyed-hash", "psi"],
        typer.Option(help="How ids are compared: keyed-hash, or psi, which nobody can guess at."),
    ] = "keyed-hash",
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Count the rows that parties have in common, by their ids.

    Ids stay where they are; each party keeps which of its rows they are.

    Example: fedforest align --data bank=customers --data shop=baskets

    Example: fedforest align --method psi --data bank=customers --data shop=baskets
    """
    from fedforest.cli.predict import read_pairs
    from fedforest.cli.run_page import describe_alignment
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import AlignRows
    from fedforest.runtime.messages.results import Alignment

    order = AlignRows(data=read_pairs(data), method=method)
    with Federation(choose_profile(profile)) as federation:
        alignment = federation.train(order, Alignment)
    terminal = Terminal(as_json, quiet)
    if as_json:
        terminal.show_json(
            {
                "common": alignment.n_common,
                "rows": alignment.n_rows,
                "without_an_id_of_their_own": alignment.n_duplicates,
                "alignment": alignment.id,
            }
        )
    else:
        typer.echo(describe_alignment(alignment))
