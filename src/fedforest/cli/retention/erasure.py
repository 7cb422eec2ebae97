"""`fedforest party data erase`: leave rows out of all later runs, and say what used them."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.cli.services import Home  # noqa: TC001 - typer reads the annotations
from fedforest.cli.terminal import AsJson, Quiet, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedforest.runtime.party.retention.erasure import ErasureReport


def erase_data(  # noqa: PLR0913, PLR0917 - options of a command
    name: Annotated[str, typer.Argument(help="The data set, which has id columns.")],
    ids: Annotated[
        Path,
        typer.Option(
            "--ids", help="A .csv or .parquet file with the id columns, or one id a line."
        ),
    ],
    home: Home,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase; without it nothing is.")] = False,
    withdraw_models: Annotated[
        bool,
        typer.Option("--withdraw-models", help="Also withdraw the models that used the rows."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Leave rows out of all later runs and predictions, and say which models used them.

    It holds for every entry over the same table. Without --yes it only reports. The source is not
    touched: remove the rows there, too. No id is kept, but a keyed digest.

    Example: fedforest party data erase customers --ids gone.txt --home ./bank

    Example: fedforest party data erase customers --ids gone.txt --home ./bank --yes
    """
    from fedforest.runtime.party.catalogue.entries import EntryFolder
    from fedforest.runtime.party.retention.erasure import RowErasure, withdraw_all

    if withdraw_models and not yes:
        raise typer.BadParameter("it is done with --yes only", param_hint="--withdraw-models")
    columns = EntryFolder(home).read(name).id
    erasure = RowErasure(home, name, _read_ids(ids, columns))
    report = erasure.report()
    owed = report.owed
    if yes:
        erasure.carry_out()
    if withdraw_models:
        withdraw_all(home, owed)
    terminal = Terminal(as_json, quiet)
    if as_json:
        withdrawn = owed if withdraw_models else []
        terminal.show_json({**report.to_json(), "erased": yes, "withdrawn": withdrawn})
        return
    _show(report)
    _advise(terminal, report, is_erased=yes, is_withdrawn=withdraw_models)


def _read_ids(path: Path, columns: Sequence[str]) -> Any:
    """Read ids as text, which keeps zeros in front."""
    import pyarrow

    from fedforest.errors import ConfigurationError

    try:
        table = _read_table(path, columns)
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        kind = type(error).__name__  # its text may quote an id
        raise ConfigurationError(f"{path} cannot be read ({kind})") from None
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ConfigurationError(f"{path} has no column {missing[0]!r}, which is an id")
    return table


def _read_table(path: Path, columns: Sequence[str]) -> Any:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    text = dict.fromkeys(columns, pyarrow.string())
    if path.suffix == ".csv":
        converting = pyarrow.csv.ConvertOptions(column_types=text)
        return pyarrow.csv.read_csv(path, convert_options=converting)
    lines = [line.strip() for line in path.read_text().splitlines()]
    return pyarrow.table({column: [line for line in lines if line] for column in columns[:1]})


def _show(report: ErasureReport) -> None:
    others = ", ".join(report.data_sets)
    typer.echo(f"{report.n_rows:,} rows have one of the {report.n_ids:,} ids, in: {others}")
    for name in report.unreachable:
        typer.echo(
            f"data set {name} has no column to find them by, and is refused after the erasure"
        )
    for model in report.models:
        used = "used the rows" if model.is_certain else "may have used the rows"
        state = "withdrawn" if model.is_withdrawn else "answers"
        label = f", label {model.label}" if model.label else ""
        typer.echo(f"model {model.model} {used} (data set {model.data}{label}): {state}")
    for run in report.runs:
        typer.echo(f"run {run} is under way with this table: it can no longer end, cancel it")
    if report.alignments or report.standing:
        named = f": {', '.join(report.standing)}" if report.standing else ""
        n_kept = len(report.alignments)
        typer.echo(f"removed: {n_kept} alignments, {len(report.standing)} standing ones{named}")


def _advise(
    terminal: Terminal, report: ErasureReport, *, is_erased: bool, is_withdrawn: bool
) -> None:
    if not is_erased:
        terminal.say("Nothing is erased yet; say --yes to do it.")
        return
    terminal.say("Erased. Remove the rows from the source, too: nothing here changes it.")
    if not report.owed:
        return
    terminal.say(f"Retraining without them is owed for {len(report.owed)} models.")
    if is_withdrawn:
        terminal.say("They are withdrawn; delete them with: fedforest party models delete")
    else:
        terminal.say("They still answer; withdraw them with: fedforest party models withdraw")
