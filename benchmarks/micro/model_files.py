"""What storing, checking and reading a forest takes: `python benchmarks/micro/model_files.py`.

Forests of two parties' rows are trained once, then stored and read on one thread. The least of many
tries counts, because other work on the machine only ever adds to a time. Kernels are compiled
before the first try.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

from rich.console import Console
from rich.table import Table

from benchmarks.measure import timed
from benchmarks.tasks import SEED, make_split
from fedforest import HorizontalExtraTreesClassifier, HorizontalExtraTreesRegressor
from fedforest.tree.files.forests import decode_forest, list_forest_pieces, open_forest

KINDS = ("binary", "multiclass", "regression")
HEADINGS = ("forest", "nodes", "MB", "pieces, ms", "joining", "checking", "with expanding")


def train(kind: str, n_rows: int, n_trees: int) -> bytes:
    """A forest grown out on the rows of two parties, as a file."""
    split = make_split(kind, n_rows)
    estimator = (
        HorizontalExtraTreesRegressor if kind == "regression" else HorizontalExtraTreesClassifier
    )
    party = [place % 2 for place in range(len(split.y_train))]
    forest = estimator(n_trees, random_state=SEED)
    return forest.fit(split.X_train, split.y_train, party=party).to_bytes()


def least(work: Callable[[], object], repeats: int) -> str:
    """Milliseconds that it takes at least."""
    work()
    return f"{min(timed(work)[1].wall for _ in range(repeats)) * 1e3:.2f}"


def ask(kind: str, n_rows: int, n_trees: int, repeats: int) -> tuple[str, ...]:
    """One line of the table."""
    data = train(kind, n_rows, n_trees)
    stored = decode_forest(data)
    store = partial(list_forest_pieces, stored.forest, stored.bins, stored.classes, stored.metadata)
    pieces = store()
    work = (
        store,
        partial(b"".join, pieces),
        partial(open_forest, data),
        partial(decode_forest, data),
    )
    return (
        f"{kind}, {n_trees} trees, {n_rows:,} rows",
        f"{stored.forest.shape.n_nodes:,}",
        f"{len(data) / 1e6:.2f}",
        *(least(one, repeats) for one in work),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time model files (half a minute).")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    table = Table(*HEADINGS, title="Horizontal forests, grown out, on one thread")
    for kind in arguments.kinds:
        table.add_row(*ask(kind, arguments.rows, arguments.trees, arguments.repeats))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
