"""`fedforest predict`: write a model's predictions to a file.

The parties of a vertical model predict together, and their rows stay with them. A complete forest,
a horizontal one or a file of `fedforest export`, predicts a table of this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.orders import Align
    from fedforest.runtime.messages.results import Alignment, RunDetails


def predict(  # noqa: PLR0913, PLR0917 - options of a command
    model: Annotated[
        str, typer.Argument(help="A finished run (name, id or first digits), or a model file.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .parquet or .csv file.")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            "-d",
            help="PARTY=DATA_SET for each party, or one file that is here. With --standing, those "
            "of the alignment unless they are named.",
        ),
    ] = None,
    align: Annotated[
        bool | None,
        typer.Option(
            "--align/--in-order",
            help="Match rows by their ids, or take them in order; as in training by default.",
        ),
    ] = None,
    standing: Annotated[
        str, typer.Option(help="Match rows by this standing alignment.", show_default=False)
    ] = "",
    only_ids: Annotated[
        list[str] | None,
        typer.Option("--id", help="Predict the row of this id; may be repeated."),
    ] = None,
    only_ids_file: Annotated[
        Path | None,
        typer.Option("--only", help="Predict the rows of the ids in this file."),
    ] = None,
    only_rows: Annotated[
        list[int] | None,
        typer.Option("--row", min=0, help="Predict this row of the common order; may be repeated."),
    ] = None,
    id_party: Annotated[
        str,
        typer.Option(help="Who finds ids; the alignment's first party unless it is named."),
    ] = "",
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", help="A party's folder on this machine: its ids stand beside the rows."
        ),
    ] = None,
    ids_file: Annotated[
        Path | None,
        typer.Option(
            "--ids", help="A file with the ids of the rows, in the order they are predicted in."
        ),
    ] = None,
    lookahead: Annotated[
        int | None,
        typer.Option(min=1, help="Levels that each exchange settles; chosen by default."),
    ] = None,
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows and write them to a file.

    It holds the number of each row, ids if they are here, the predicted class and probabilities, or
    the value.

    Example: fedforest predict 4f2a --data bank=new_customers --data shop=baskets -o p.parquet

    Example: fedforest predict 4f2a --standing customers --id C-1042 --id C-7731 -o p.csv

    Example: fedforest predict forest.model --data patients.csv --out predictions.csv
    """
    from fedforest.cli.prediction_file import check_name, make_table, write_table

    check_name(out)
    chosen = _choose_rows(only_ids, only_ids_file, only_rows, id_party)
    if chosen is not None and (not standing or home is not None or ids_file is not None):
        raise typer.BadParameter(
            "rows are chosen under a standing alignment (--standing NAME), and have their names "
            "already: leave --home and --ids out"
        )
    if not data and not standing:
        raise typer.BadParameter("name the rows to predict", param_hint="--data")
    own_ids = _read_ids_file(ids_file, home)
    if Path(model).is_file():
        predicted = _Predicted(*_predict_here(Path(model).read_bytes(), data or []))
    else:
        wishes = _Wishes(data or [], align, lookahead, home, standing, chosen)
        predicted = _predict_run(profile, model, wishes)
    votes, classes, ids, alignment = predicted[:4]
    if own_ids is not None:
        ids = _check_ids(own_ids, len(votes), alignment)
    if chosen is None:
        written = make_table(votes, classes, ids)
    else:
        written = chosen.place(make_table(votes, classes), predicted.is_found)
    write_table(written, out)
    terminal = Terminal(as_json, quiet)
    if as_json:
        told = None if alignment is None else alignment.id
        terminal.show_json({"rows": len(votes), "file": str(out), "alignment": told})
    elif written.num_rows > len(votes):
        missing = written.num_rows - len(votes)
        terminal.say(f"{len(votes):,} rows predicted, in {out}; {missing:,} ids are not everywhere")
    else:
        terminal.say(f"{len(votes):,} rows predicted, in {out}")


class _Chosen(NamedTuple):
    """Single rows under a standing alignment: their numbers, or a pyarrow table of their ids."""

    rows: list[int] | None
    ids: Any
    id_party: str

    def columns(self) -> list[list[str]] | None:
        """Return the texts of ids, column by column."""
        if self.ids is None:
            return None
        return [[str(value) for value in column.to_pylist()] for column in self.ids.columns]

    def place(self, predictions: Any, is_found: NDArray[Any] | None) -> Any:
        """Return predictions beside the names of their rows; ids that have none get nulls."""
        import numpy as np
        import pyarrow

        values = predictions.drop_columns(["row"])
        if self.ids is None:
            return values.add_column(0, "row", pyarrow.array(self.rows))
        if is_found is not None:
            places = pyarrow.array(np.cumsum(is_found) - 1, mask=~is_found)
            values = values.take(places)
        for number, name in enumerate(self.ids.column_names):
            values = values.add_column(number, name, self.ids.column(number))
        return values


def _choose_rows(
    ids: list[str] | None, file: Path | None, rows: list[int] | None, id_party: str
) -> _Chosen | None:
    """Return the rows that are named one by one; None: all are meant."""
    import pyarrow

    from fedforest.cli.prediction_file import read_local_table

    if sum(map(bool, (ids, file, rows))) > 1:
        raise typer.BadParameter("name rows in one way: --id, --only or --row")
    if rows:
        return _Chosen(rows, None, "")
    if not ids and file is None:
        return None
    table = pyarrow.table({"id": ids}) if file is None else read_local_table(file)
    if not table.num_rows:
        raise typer.BadParameter(f"{file} has no ids", param_hint="--only")
    return _Chosen(None, table, id_party)


class _Wishes(NamedTuple):
    """The rows to predict and the manner of prediction."""

    data: list[str]
    align: bool | None  # None: as in training
    lookahead: int | None
    home: Path | None
    standing: str = ""  # the name of a standing alignment
    chosen: _Chosen | None = None  # of its rows


class _Predicted(NamedTuple):
    votes: NDArray[Any]
    classes: NDArray[Any] | None
    ids: Any = None  # pyarrow table
    alignment: Alignment | None = None
    is_found: NDArray[Any] | None = None  # of each id that was named


def _predict_run(profile: str, model: str, wishes: _Wishes) -> _Predicted:
    from fedforest.cli.runs import find_model
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import ShowRun, WatchRun
    from fedforest.runtime.messages.results import HorizontalResult, RunDetails

    with Federation(choose_profile(profile)) as federation:
        run = find_model(federation, model).run
        details = federation.ask(ShowRun(run=run), RunDetails)
        if wishes.chosen is not None and details.state.protocol != "vertical":
            raise typer.BadParameter("only vertical forests predict chosen rows of their parties")
        if details.state.protocol == "horizontal":
            file = federation.ask(WatchRun(run=run), HorizontalResult).file
            return _Predicted(*_predict_here(file, wishes.data))
        if details.state.protocol == "linear":
            return _predict_linear(federation, run, wishes)
        return _predict_there(federation, details, wishes)


def _predict_linear(federation: Federation, run: str, wishes: _Wishes) -> _Predicted:
    from fedforest.protocol.linear.labels import class_probabilities
    from fedforest.runtime.messages.orders import PredictLinear, WatchRun
    from fedforest.runtime.messages.results import LinearResult, Predictions
    from fedforest.tree.table.class_labels import unpack_labels

    if wishes.align or wishes.lookahead is not None:
        raise typer.BadParameter(
            "a linear model predicts all rows in order, in one exchange; leave --align and "
            "--lookahead out"
        )
    pairs = read_pairs(wishes.data)
    packed = federation.ask(WatchRun(run=run), LinearResult).classes
    predictions = federation.ask(PredictLinear(data=pairs, model=run), Predictions)
    ids = None if wishes.home is None else _read_ids(wishes.home, pairs)
    scores = predictions.read()
    if packed is None:
        return _Predicted(scores, None, ids)
    return _Predicted(class_probabilities(scores[:, 0]), unpack_labels(packed), ids)


def _predict_there(federation: Federation, details: RunDetails, wishes: _Wishes) -> _Predicted:
    from fedforest.cli.align import read_standing
    from fedforest.runtime.client.predictions import predict_rows
    from fedforest.runtime.messages.orders import PredictVertical, WatchRun
    from fedforest.runtime.messages.results import VerticalResult
    from fedforest.tree.table.class_labels import unpack_labels

    run, chosen = details.state.run, wishes.chosen
    takes_known = wishes.standing and not wishes.data
    pairs = read_standing(federation, wishes.standing) if takes_known else read_pairs(wishes.data)
    order = PredictVertical(
        data=pairs,
        model=run,
        rows=None if chosen is None else chosen.rows,
        ids=None if chosen is None else chosen.columns(),
        id_party="" if chosen is None else chosen.id_party,
        lookahead=wishes.lookahead,
        hard_votes=bool(details.order.get("hard_votes")),
        align=_choose_alignment(details.order.get("align", False), wishes),
    )
    packed = federation.ask(WatchRun(run=run), VerticalResult).classes
    predicted = predict_rows(federation, order)
    ids = None if wishes.home is None else _read_ids(wishes.home, pairs, predicted.alignment)
    classes = None if packed is None else unpack_labels(packed)
    return _Predicted(predicted.values, classes, ids, predicted.alignment, predicted.is_found)


def _choose_alignment(in_training: Any, wishes: _Wishes) -> Align:
    """As in training; rows that were in order there are matched by keyed hashes if wished."""
    from fedforest.runtime.messages.orders import StandingName

    if wishes.standing:
        return StandingName(wishes.standing)
    align: Align = StandingName(**in_training) if isinstance(in_training, dict) else in_training
    if wishes.align is None:
        return align
    return wishes.align and (align or True)


def _read_ids_file(path: Path | None, home: Path | None) -> Any:
    """Read the ids that the asker has; before anything is predicted, or mistakes would cost it."""
    from fedforest.cli.prediction_file import read_local_table

    if path is None:
        return None
    if home is not None:
        raise typer.BadParameter("ids come from --home or from --ids; leave one out")
    return read_local_table(path)


def _check_ids(ids: Any, n_rows: int, alignment: Alignment | None) -> Any:
    """Refuse ids of other rows than those that were predicted."""
    if ids.num_rows == n_rows:
        return ids
    advice = ""
    if alignment is not None:
        advice = (
            "; they were aligned: a party's owner writes theirs with "
            f"fedforest party alignments ids {alignment.id}"
        )
    raise typer.BadParameter(
        f"{ids.num_rows:,} ids are no names of {n_rows:,} rows{advice}", param_hint="--ids"
    )


def _read_ids(home: Path, pairs: dict[str, str], alignment: Alignment | None = None) -> Any:
    """Read the ids of the rows at the party of a folder; only readers of the folder see them."""
    from fedforest.runtime.membership.homes import load_credentials
    from fedforest.runtime.party.aligned_ids import read_ids

    party = load_credentials(home).identity.name
    if party not in pairs:
        raise typer.BadParameter(f"{party} is none of the parties", param_hint="--home")
    return read_ids(home, pairs[party], None if alignment is None else alignment.id)


def _predict_here(file: bytes, data: list[str]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    from fedforest.cli.prediction_file import read_local_table
    from fedforest.estimators.vertical.whole_forest import WholeForest

    if len(data) != 1 or (not Path(data[0]).exists() and "=" in data[0]):
        raise typer.BadParameter(
            "the whole of this model is here and predicts one table that is here, too; name its "
            "file: --data patients.csv",
            param_hint="--data",
        )
    forest = WholeForest.from_bytes(file)
    return forest.votes(read_local_table(Path(data[0]))), forest.classes


def read_pairs(data: list[str]) -> dict[str, str]:
    """`PARTY=DATA_SET` options as a mapping."""
    pairs = dict(item.partition("=")[::2] for item in data)
    if len(pairs) != len(data) or not all(party and name for party, name in pairs.items()):
        raise typer.BadParameter(
            "the rows stay with the parties; name a data set of each: --data bank=customers",
            param_hint="--data",
        )
    return pairs
