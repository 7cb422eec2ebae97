"""What the demo does with its federation: two runs from files, a prediction, and what nobody has.

The files are those that a user would write (docs/runs.md); they stay in the demo's folder.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.cli.demonstration.letters import (
    ID,
    LABEL,
    NEW,
    OFFICES,
    SCANS,
    STRIPS,
    Letters,
    number_of,
)
from fedforest.cli.progress import RunProgress, watching
from fedforest.cli.terminal import Terminal
from fedforest.estimators.horizontal import HorizontalExtraTreesClassifier
from fedforest.estimators.run_orders import order_run
from fedforest.estimators.vertical import VerticalForestClassifier
from fedforest.runtime.aligned_ids import read_ids
from fedforest.runtime.client import Federation
from fedforest.runtime.orders import PredictVertical, ShowRun, TrainVertical, WatchRun
from fedforest.runtime.results import (
    HorizontalResult,
    Predictions,
    RunDetails,
    VerticalResult,
)
from fedforest.runtime.run_files import read_run_file

TREES, MIN_ROWS = 100, 5
HELD_OUT = 0.2
_DIVISIONS = 3
_PARAMETERS = f"""
[parameters]
n_estimators = {TREES}
min_samples_leaf = {MIN_ROWS}    # what parties' policies demand, if they say nothing else
"""


def write_run_files(folder: Path, seed: int) -> tuple[Path, Path]:
    """A vertical run and a horizontal one, as users write them."""
    head = f"seed = {seed}\nalone = true\n"
    validation = f"\n[validation]\nshare = {HELD_OUT}\n{_PARAMETERS}"
    vertical, horizontal = folder / "strips.toml", folder / "scans.toml"
    vertical.write_text(
        f'name = "strips"\nprotocol = "vertical"\nalign = true\n{head}\n[parties]\n'
        + "".join(f'{office} = "{STRIPS}"\n' for office in OFFICES)
        + f'\n[label]\nparty = "{OFFICES[0]}"\ncolumn = "{LABEL}"\n{validation}'
    )
    horizontal.write_text(
        f'name = "scans"\nprotocol = "horizontal"\naggregation = "Masked"\n{head}\n[parties]\n'
        + "".join(f'{office} = "{SCANS}"\n' for office in OFFICES)
        + f'\n[label]\ncolumn = "{LABEL}"\n{validation}'
    )
    return vertical, horizontal


def carry_out(federation: Federation, file: Path, terminal: Terminal) -> RunDetails:
    """`fedforest train FILE --watch`."""
    order = order_run(read_run_file(file))
    run = federation.begin(order)
    progress = RunProgress(order.parameters.n_estimators)
    kind: Any = VerticalResult if isinstance(order, TrainVertical) else HorizontalResult
    with watching(terminal, run, progress) as tell:
        federation.watch(WatchRun(run=run), kind, tell)
    return federation.ask(ShowRun(run=run), RunDetails)


def predict_new(federation: Federation, run: str, folder: Path, letters: Letters) -> float:
    """`fedforest predict strips --data OFFICE=new_strips ... --home FOLDER`: how many are right.

    Predictions come in an order that only offices know; the first one puts its ids beside them.
    """
    order = PredictVertical(data=dict.fromkeys(OFFICES, NEW), model=run, align=True)
    predictions = federation.ask(order, Predictions)
    assert predictions.alignment is not None
    ids = read_ids(folder / OFFICES[0], NEW, predictions.alignment.id)
    numbers = [number_of(letter) for letter in ids.column(ID).to_pylist()]
    predicted = predictions.read().argmax(axis=1)  # the classes are the digits, in their order
    return float((predicted == letters.digits[numbers]).mean())


def pool(letters: Letters, seed: int) -> tuple[float, float]:
    """Accuracies of forests over all strips and over all scans in one table, which nobody has."""
    strips = VerticalForestClassifier(
        TREES, min_samples_leaf=MIN_ROWS, parties=len(OFFICES), random_state=seed
    )
    scans = HorizontalExtraTreesClassifier(TREES, min_samples_leaf=MIN_ROWS, random_state=seed)
    return (
        _score(strips, letters, letters.common, seed),
        _score(scans, letters, letters.old, seed),
    )


def _score(forest: Any, letters: Letters, rows: NDArray[np.int64], seed: int) -> float:
    """On held-out rows, as many as the federation holds out; the mean of some divisions."""
    rng = np.random.default_rng(seed)
    n_held_out = round(HELD_OUT * len(rows))
    scores = []
    for _ in range(_DIVISIONS):
        shuffled = rng.permutation(rows)
        held_out, trained = shuffled[:n_held_out], shuffled[n_held_out:]
        forest.fit(letters.pixels[trained], letters.digits[trained])
        scores.append(forest.score(letters.pixels[held_out], letters.digits[held_out]))
    return float(np.mean(scores))
