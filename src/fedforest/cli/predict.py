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
    data: Annotated[
        list[str],
        typer.Option(
            "--data", "-d", help="PARTY=DATA_SET for each party, or one file that is here."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .parquet or .csv file.")],
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

    Example: fedforest predict forest.model --data patients.csv --out predictions.csv
    """
    from fedforest.cli.prediction_file import check_name, make_table, write_table

    check_name(out)
    own_ids = _read_ids_file(ids_file, home)
    if Path(model).is_file():
        predicted = _Predicted(*_predict_here(Path(model).read_bytes(), data))
    else:
        wishes = _Wishes(data, align, lookahead, home, standing)
        predicted = _predict_run(profile, model, wishes)
    votes, classes, ids, alignment = predicted
    if own_ids is not None:
        ids = _check_ids(own_ids, len(votes), alignment)
    write_table(make_table(votes, classes, ids), out)
    terminal = Terminal(as_json, quiet)
    if as_json:
        told = None if alignment is None else alignment.id
        terminal.show_json({"rows": len(votes), "file": str(out), "alignment": told})
    else:
        terminal.say(f"{len(votes):,} rows predicted, in {out}")


class _Wishes(NamedTuple):
    """The rows to predict and the manner of prediction."""

    data: list[str]
    align: bool | None  # None: as in training
    lookahead: int | None
    home: Path | None
    standing: str = ""  # the name of a standing alignment


class _Predicted(NamedTuple):
    votes: NDArray[Any]
    classes: NDArray[Any] | None
    ids: Any = None  # pyarrow table
    alignment: Alignment | None = None


def _predict_run(profile: str, model: str, wishes: _Wishes) -> _Predicted:
    from fedforest.cli.runs import find_model
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import ShowRun, WatchRun
    from fedforest.runtime.messages.results import HorizontalResult, RunDetails

    with Federation(choose_profile(profile)) as federation:
        run = find_model(federation, model).run
        details = federation.ask(ShowRun(run=run), RunDetails)
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
    from fedforest.runtime.client.predictions import predict_rows
    from fedforest.runtime.messages.orders import PredictVertical, WatchRun
    from fedforest.runtime.messages.results import VerticalResult
    from fedforest.tree.table.class_labels import unpack_labels

    run, pairs = details.state.run, read_pairs(wishes.data)
    order = PredictVertical(
        data=pairs,
        model=run,
        lookahead=wishes.lookahead,
        hard_votes=bool(details.order.get("hard_votes")),
        align=_choose_alignment(details.order.get("align", False), wishes),
    )
    packed = federation.ask(WatchRun(run=run), VerticalResult).classes
    predicted = predict_rows(federation, order)
    ids = None if wishes.home is None else _read_ids(wishes.home, pairs, predicted.alignment)
    classes = None if packed is None else unpack_labels(packed)
    return _Predicted(predicted.values, classes, ids, predicted.alignment)


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
