"""`fedforest party data`: what a party can take part with, as its owner sees and changes it.

Everything happens on the owner's machine: values are shown here and nowhere else.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Quiet, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedforest.runtime.party.catalogue.catalogue import Catalogue
    from fedforest.runtime.party.catalogue.entries import Entry, Kind, Missing
    from fedforest.runtime.party.catalogue.profile import ColumnProfile
    from fedforest.runtime.party.data_sets import DataSet

data = typer.Typer(help="The data sets that a party takes part with.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name that runs know the data set by.")]
_LONGEST_VALUE = 24


@data.callback()
def data_commands() -> None:
    """The data sets that a party takes part with; changes count at once, without a restart."""


@data.command("add")
def add_data(  # noqa: PLR0913, PLR0917 - options of a command
    name: Name,
    home: Home,
    source: Annotated[
        str | None,
        typer.Argument(help="A CSV, Parquet, DuckDB or SQLite file; none for PostgreSQL."),
    ] = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="A column that tells rows apart; may repeat.")
    ] = None,
    id_trim: Annotated[bool, typer.Option(help="Leave out white space around ids.")] = True,
    id_case: Annotated[
        Literal["keep", "fold"],
        typer.Option(help="Whether capital and small letters of ids are the same: fold."),
    ] = "keep",
    id_unicode: Annotated[
        Literal["NFC", "NFKC"],
        typer.Option(help="Whether wide and other forms of a letter are the same: NFKC."),
    ] = "NFC",
    id_numbers: Annotated[
        Literal["keep", "plain"],
        typer.Option(help="Whether 007 and 7 are the same: plain."),
    ] = "keep",
    id_duplicates: Annotated[
        Literal["leave-out", "first", "refuse"],
        typer.Option(help="What happens to rows that share an id."),
    ] = "leave-out",
    table: Annotated[str | None, typer.Option(help="The table of a database.")] = None,
    query: Annotated[str | None, typer.Option(help="Or a query that reads it.")] = None,
    uri_env: Annotated[
        str | None, typer.Option(help="PostgreSQL: the environment variable that holds its URI.")
    ] = None,
    uri_file: Annotated[
        Path | None, typer.Option(help="PostgreSQL: a file (mode 600) that holds its URI.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="COLUMN=number or COLUMN=category; may repeat."),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A value that stands for a missing one, as NA or -999; may repeat."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="A column that no run may see; may repeat.")
    ] = None,
    table_identity: Annotated[
        str | None,
        typer.Option(help="The table that the rows are of, if other data sets read it as well."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a data set, and accept its columns.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Name a file or a table of a database, and note its columns.

    Relative paths count from where you are; the catalogue keeps them absolute unless the file is in
    the party's folder.

    Example: fedforest party data add visits visits.csv --id person --missing NA --home ./bank

    Example: fedforest party data add loans --uri-env LOANS_DB --table loans --id id --home ./bank
    """
    from fedforest.runtime.party.catalogue.catalogue import open_catalogue
    from fedforest.runtime.party.catalogue.entries import Entry
    from fedforest.runtime.party.catalogue.ids import IdRules

    entry = Entry(
        source=None if source is None else _place(source, home),
        uri_env=uri_env,
        uri_file=None if uri_file is None else _place(str(uri_file), home),
        table=table,
        query=query,
        id=ids or [],
        id_rules=IdRules(
            trim=id_trim,
            case=id_case,
            unicode=id_unicode,
            numbers=id_numbers,
            duplicates=id_duplicates,
        ),
        types=_read_types(types or []),
        missing=[_read_missing(value) for value in missing or []],
        exclude=exclude or [],
        table_identity=table_identity,
    )
    added = open_catalogue(home).add(name, entry, replaces=replace)
    if as_json:
        told = {"name": name, "rows": added.n_rows, "rows_that_share_an_id": _count_shared(added)}
        Terminal(as_json).show_json(told)
    elif not quiet:
        _print_profile(name, entry, added)


@data.command("list")
def list_data(home: Home, as_json: AsJson = False) -> None:
    """Show all data sets.

    Example: fedforest party data list --home ./bank
    """
    from fedforest.runtime.party.catalogue.catalogue import open_catalogue

    catalogue = open_catalogue(home)
    found = [_describe(catalogue, name) for name in catalogue.entries.names()]
    if as_json:
        Terminal().show_json(found)
    elif not found:
        typer.echo("There is no data set yet; add one with `fedforest party data add`.")
    else:
        rows = [
            (
                line["name"],
                line["place"],
                line["table"],
                ", ".join(line["id"]),
                str(line["n_columns"]),
            )
            for line in found
        ]
        _print_table("", ("Name", "Source", "Table", "Id", "Columns"), rows)


@data.command("show")
def show_data(
    name: Name,
    home: Home,
    rows: Annotated[int, typer.Option(min=0, help="Rows of the preview.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show a data set to its owner: every column in a few numbers, and the first rows.

    Example: fedforest party data show patients --home ./bank
    """
    from dataclasses import asdict

    from fedforest.runtime.party.catalogue.catalogue import open_catalogue
    from fedforest.runtime.party.catalogue.profile import preview_rows, profile_columns

    catalogue = open_catalogue(home)
    entry, found = catalogue.entries.read(name), catalogue.read(name)
    if as_json:
        told = _describe(catalogue, name) | {
            "n_rows": found.n_rows,
            "columns": [asdict(column) for column in profile_columns(found)],
            "preview": preview_rows(found, rows),
        }
        Terminal().show_json(told)
        return
    _print_profile(name, entry, found)
    preview = preview_rows(found, rows)
    if preview:
        shown = [tuple(_shorten(value) for value in row.values()) for row in preview]
        _print_table("First rows", tuple(preview[0]), shown)


@data.command("remove")
def remove_data(
    name: Name,
    home: Home,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take a data set out of the catalogue; its file or table stays as it is.

    Example: fedforest party data remove patients --home ./bank
    """
    from fedforest.runtime.party.catalogue.entries import EntryFolder

    EntryFolder(home).remove(name)
    if as_json:
        Terminal(as_json).show_json({"removed": name})
    elif not quiet:
        typer.echo(f"Data set {name} is no longer in the catalogue; its source is untouched.")


def _place(path: str, home: Path) -> str:
    """Return the path as the catalogue stores it: relative to the party's folder, or absolute."""
    from pathlib import Path

    if "://" in path:
        return path  # refused, with a reason, by the entry
    whole, folder = Path(path).expanduser().resolve(), home.resolve()
    return str(whole.relative_to(folder) if whole.is_relative_to(folder) else whole)


def _read_types(given: list[str]) -> dict[str, Kind]:
    types: dict[str, Kind] = {}
    for text in given:
        column, _, kind = text.rpartition("=")
        if not column or kind not in ("number", "category"):
            raise typer.BadParameter(
                f"{text!r} is not COLUMN=number or COLUMN=category", param_hint="--type"
            )
        types[column] = "number" if kind == "number" else "category"
    return types


def _read_missing(text: str) -> Missing:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _describe(catalogue: Catalogue, name: str) -> dict[str, Any]:
    from msgspec import to_builtins

    from fedforest.runtime.party.catalogue.tables import identify_table

    entry, schema = catalogue.entries.read(name), catalogue.schema(name) or {}
    return {
        "name": name,
        "place": entry.place,
        "table_identity": identify_table(catalogue.entries.home, entry),
        "table": entry.table or ("(query)" if entry.query else ""),
        "id": entry.id,
        "id_rules": to_builtins(entry.id_rules),
        "n_columns": len(schema),
    }


def _print_profile(name: str, entry: Entry, found: DataSet) -> None:
    from fedforest.runtime.party.catalogue.profile import profile_columns

    title = f"{name}: {found.n_rows:,} rows from {entry.place}, table {found.identity.table!r}"
    rows = [_row(column) for column in profile_columns(found)]
    _print_table(title, ("Column", "Kind", "Distinct", "Missing", "Values"), rows)
    n_shared = _count_shared(found)
    if n_shared:
        typer.echo(
            f"{n_shared:,} rows share an id with another; an alignment takes "
            + ("the first of each" if entry.id_rules.duplicates == "first" else "none of them")
        )


def _count_shared(found: DataSet) -> int:
    from fedforest.runtime.party.catalogue.ids import count_shared

    return 0 if found.id_columns is None else count_shared(found.ids().tolist())


def _row(column: ColumnProfile) -> tuple[str, ...]:
    if column.smallest is not None and column.mean is not None:
        values = f"{column.smallest:g} to {column.largest:g}, mean {column.mean:g}"
    else:
        values = ", ".join(f"{_shorten(value)} ({count:,})" for value, count in column.top)
    return (
        column.name,
        column.kind,
        f"{column.n_distinct:,}",
        f"{column.missing_share:.1%}",
        values,
    )


def _shorten(value: object) -> str:
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _print_table(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title) or None, title_justify="left")
    for name in names:
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    Terminal().out.print(table)
