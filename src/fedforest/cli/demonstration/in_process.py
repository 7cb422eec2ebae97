"""`fedforest demo --in-process`: three parties train over columns that none shows the others.

Beside it stand the forest of each party alone and the forest of the joined table, which the
federated one equals bit for bit. Everything happens in this process; the messages are counted.
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console
    from rich.table import Table as Report

    from fedforest.estimators.vertical.forests import VerticalForestClassifier

PARTIES = ("bank", "insurer", "shop")
_COLUMNS = 30


class Tables(NamedTuple):
    """Every party's columns of the same rows, and the labels, which the first party owns."""

    train: dict[str, NDArray[Any]]
    test: dict[str, NDArray[Any]]
    y_train: NDArray[Any]
    y_test: NDArray[Any]


class Result(NamedTuple):
    """A trained forest, how well it does on rows it has not seen, and what training took."""

    forest: VerticalForestClassifier
    accuracy: float
    seconds: float


def demonstrate(rows: int, trees: int, seed: int, plot: Path | None = None) -> None:
    """Train over three parties' columns, beside each party alone and the joined table."""
    from rich.console import Console

    from fedforest.cli.run_page import make_risk_table

    console = Console()
    tables = _draw_tables(rows, seed)
    n_columns = ", ".join(f"{party} {X.shape[1]}" for party, X in tables.train.items())
    console.print(
        f"{rows:,} people known to three parties (columns: {n_columns}); the {PARTIES[0]} knows "
        f"the outcome. {len(tables.y_train):,} to learn from, {len(tables.y_test):,} to score on."
    )
    _train(tables, PARTIES, 1, seed)  # compiles kernels, and tells how far it is, before the clock
    together = _train(tables, PARTIES, trees, seed, verbose=1)
    pooled = _train_pooled(tables, trees, seed)
    alone = {party: _train(tables, (party,), trees, seed) for party in PARTIES}
    console.print(_compare(alone, together, pooled, trees))
    _print_identity(console, together, pooled)
    if plot is not None:
        _draw(alone, together, pooled, plot)
        console.print(f"The picture is {plot}.")
    console.print(make_risk_table(_list_attacks(), "Who learned what"))
    console.print(
        "All parties ran in this process. `print(forest.leakage_)` tells who learned what."
    )


def _list_attacks() -> dict[str, Any]:
    """List the known attacks on what a vertical training and its predictions reveal."""
    from fedforest.protocol.vertical import messages
    from fedforest.protocol.vertical.prediction import messages as prediction_messages
    from fedforest.runtime.disclosure.known_attacks import attacks_on

    requests = (*messages.REQUESTS, *prediction_messages.REQUESTS)
    attacks = attacks_on(request.reply.__name__ for request in requests)
    return {"attacks": [attack.to_json() for attack in attacks]}


def _draw_tables(rows: int, seed: int) -> Tables:
    """Columns of one synthetic table, dealt out so that each party has some of the signal."""
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split

    X, y = make_classification(
        n_samples=rows,
        n_features=_COLUMNS,
        n_informative=15,
        flip_y=0.02,
        class_sep=1.2,
        random_state=seed,
    )
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    width = _COLUMNS // len(PARTIES)
    columns = {party: slice(i * width, (i + 1) * width) for i, party in enumerate(PARTIES)}
    return Tables(
        {party: X_train[:, own] for party, own in columns.items()},
        {party: X_test[:, own] for party, own in columns.items()},
        y_train,
        y_test,
    )


def _train(
    tables: Tables, parties: tuple[str, ...], trees: int, seed: int, verbose: int = 0
) -> Result:
    """A forest over the columns of some parties."""
    train = {party: tables.train[party] for party in parties}
    test = {party: tables.test[party] for party in parties}
    return _measure(train, test, tables, trees, seed, verbose)


def _train_pooled(tables: Tables, trees: int, seed: int) -> Result:
    """A forest over the joined table, which nobody could have."""
    import numpy as np

    train = np.hstack(list(tables.train.values()))
    test = np.hstack(list(tables.test.values()))
    return _measure(train, test, tables, trees, seed)


def _measure(  # noqa: PLR0913, PLR0917 - what is trained on, scored on, and how
    train: Any, test: Any, tables: Tables, trees: int, seed: int, verbose: int = 0
) -> Result:
    from fedforest import VerticalForestClassifier

    n_jobs = os.cpu_count() or 1
    forest = VerticalForestClassifier(
        n_estimators=trees, random_state=seed, n_jobs=n_jobs, verbose=verbose
    )
    started = perf_counter()
    forest.fit(train, tables.y_train)
    seconds = perf_counter() - started
    return Result(forest, float(forest.score(test, tables.y_test)), seconds)


def _compare(alone: dict[str, Result], together: Result, pooled: Result, trees: int) -> Report:
    from rich.table import Table as Report

    report = Report(
        "Forest", "Accuracy", "Training", "Exchanges", "Bytes from parties", title=f"{trees} trees"
    )
    for party, result in alone.items():
        report.add_row(f"{party} alone", *_cells(result), "-", "-")
    report.add_section()
    sent = sum(together.forest.bytes_sent_.values())
    exchanges = str(together.forest.n_exchanges_)
    report.add_row("[bold]federated[/bold]", *_cells(together), exchanges, f"{sent:,}")
    report.add_row("joined table", *_cells(pooled), "-", "-")
    return report


def _draw(alone: dict[str, Result], together: Result, pooled: Result, plot: Path) -> None:
    from fedforest.cli.demonstration.report import Panel, draw

    accuracies = {party: result.accuracy for party, result in alone.items()}
    title = "columns of the same people"
    draw([Panel(title, "unseen people", accuracies, together.accuracy, pooled.accuracy)], plot)


def _print_identity(console: Console, together: Result, pooled: Result) -> None:
    """Compare the forests themselves, not only what they predict."""
    from fedforest.tree.files.forests import decode_forest, encode_forest

    joined = decode_forest(pooled.forest.complete_model({"party_0": True}))
    united = together.forest.union(dict.fromkeys(PARTIES, True))
    same = encode_forest(united, joined.bins) == encode_forest(joined.forest, joined.bins)
    verdict = "bit for bit the same" if same else "[red]different[/red]"
    console.print(f"The federated forest and the forest of the joined table are {verdict}.")


def _cells(result: Result) -> tuple[str, str]:
    return f"{result.accuracy:.4f}", f"{result.seconds:.2f} s"
