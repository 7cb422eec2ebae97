"""`fedforest data`: the public data sets of the papers, for `fedforest reproduce`."""

from __future__ import annotations

from typing import Annotated

import typer

from fedforest.cli.terminal import AsJson, Terminal

paper_data = typer.Typer(help="The papers' public data sets.", no_args_is_help=True)

Names = Annotated[list[str], typer.Argument(help="Names of data sets, or `all`.")]


@paper_data.callback()
def paper_data_commands() -> None:
    """The papers' public data sets: FEDFOREST_DATA names the folder of their Parquet files."""


@paper_data.command("list")
def list_data_sets(as_json: AsJson = False) -> None:
    """Show every data set: layout, source, licence, citation, and the expected SHA-256.

    Example: fedforest data list
    """
    from dataclasses import asdict

    from fedforest.experiments.data.catalogue import DATA_SETS
    from fedforest.experiments.data.reading import data_folder

    terminal = Terminal(as_json)
    if as_json:
        terminal.show_json([asdict(data) for data in DATA_SETS.values()])
        return
    typer.echo(f"Parquet files are looked for in {data_folder()} (FEDFOREST_DATA names another).")
    for data in DATA_SETS.values():
        typer.echo(f"\n{data.name}: {data.title}")
        about = {
            "layout": data.layout,
            "source": data.source,
            "files": ", ".join(data.originals),
            "licence": data.licence,
            "cite": data.citation,
            "sha256": data.sha256,
            "note": data.remark,
        }
        for key, value in about.items():
            if value:
                typer.echo(f"  {key:8} {value}")


@paper_data.command("fetch")
def fetch_data_sets(
    names: Names,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="A folder or .zip file with the original files, or the http address of a mirror.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Convert original files, as UCI has them, to the Parquet files that experiments read.

    Original files may be packed by gzip or zip. No address is built in: a mirror is one that you
    name, and files are expected below it by their names.

    Example: fedforest data fetch spambase --from ~/Downloads/spambase.zip
    """
    from fedforest.experiments.data.storing import check_file, choose_data_sets, fetch

    terminal, done = Terminal(as_json), []
    for data in choose_data_sets(names):
        path = fetch(data, source)
        state = check_file(data)
        done.append({"name": data.name, "file": str(path), "state": state.state})
        if not as_json:
            typer.echo(f"{data.name}: {path}; {state.state}: {state.told}")
    if as_json:
        terminal.show_json(done)


@paper_data.command("check")
def check_data_sets(
    names: Annotated[list[str] | None, typer.Argument(help="By default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare files with the ones that published results were measured on, by SHA-256 and shape.

    Example: fedforest data check
    """
    from fedforest.experiments.data.catalogue import DATA_SETS
    from fedforest.experiments.data.storing import MISSING, WRONG, check_file, choose_data_sets

    states = {data.name: check_file(data) for data in choose_data_sets(names or list(DATA_SETS))}
    if as_json:
        Terminal(as_json).show_json({name: state._asdict() for name, state in states.items()})
    else:
        for name, state in states.items():
            typer.echo(f"{name:24} {state.state:12} {state.told}")
    if any(state.state in (MISSING, WRONG) for state in states.values()):
        raise typer.Exit(1)
