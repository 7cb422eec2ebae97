"""The runs of the demo: two from run files, a prediction, and forests of pooled tables.

The files are those that a user would write (docs/how-to/runs.md); they stay in the demo's folder.
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
    pixels_of,
    rows_of,
)
from fedforest.cli.progress import watching
from fedforest.cli.terminal import Terminal
from fedforest.estimators.horizontal.forests import HorizontalExtraTreesClassifier
from fedforest.estimators.run_files import order_run
from fedforest.estimators.vertical.forests import VerticalForestClassifier
from fedforest.reports.progress import RunProgress
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.client.run_files import read_run_file
from fedforest.runtime.messages.orders import PredictVertical, ShowRun, WatchRun
from fedforest.runtime.messages.results import (
    Predictions,
    RunDetails,
)
from fedforest.runtime.party.aligned_ids import read_ids
from fedforest.runtime.party.row_selection import hold_out
from fedforest.runtime.trainings.forests import choose_rows
from fedforest.runtime.trainings.registry import training_of

TREES, MIN_ROWS = 100, 5
HELD_OUT = 0.2
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
    kind: Any = training_of(order).result_type
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


def find_held_out(file: Path, n_rows: int) -> NDArray[np.bool_]:
    """Find the rows that a run holds out, as every party does from the seed of its run file."""
    choice = choose_rows(order_run(read_run_file(file)), None)
    assert choice is not None, "the demo's runs hold rows out"
    return hold_out(n_rows, choice.held_out, choice.seed)


def pool_strips(letters: Letters, folder: Path, details: RunDetails, file: Path) -> float:
    """The accuracy of a forest on all strips in one table, which no office has.

    It learns from the letters that the federation learned from, in the same order, and is scored on
    those that the federation held out. The order is known to offices only: the demo reads it in
    the folder of one.
    """
    assert details.alignment is not None
    ids = read_ids(folder / OFFICES[0], STRIPS, details.alignment.id).column(ID).to_pylist()
    rows = np.array([number_of(letter) for letter in ids])
    seed = details.order["seed"]
    forest = VerticalForestClassifier(TREES, min_samples_leaf=MIN_ROWS, random_state=seed)
    pixels = letters.pixels[:, [pixel for office in OFFICES for pixel in pixels_of(office)]]
    is_held_out = find_held_out(file, len(rows))
    return _score(forest, pixels, letters.digits, rows[~is_held_out], rows[is_held_out])


def pool_scans(letters: Letters, details: RunDetails, file: Path) -> float:
    """The accuracy of a forest on all scans in one table, over the letters of the federation."""
    parts = [rows_of(letters, office) for office in OFFICES]
    held_out = [find_held_out(file, len(rows)) for rows in parts]
    seed = details.order["seed"]
    forest = HorizontalExtraTreesClassifier(TREES, min_samples_leaf=MIN_ROWS, random_state=seed)
    pairs = list(zip(parts, held_out, strict=True))
    trained = np.concatenate([rows[~is_out] for rows, is_out in pairs])
    scored = np.concatenate([rows[is_out] for rows, is_out in pairs])
    return _score(forest, letters.pixels, letters.digits, trained, scored)


def _score(
    forest: Any,
    pixels: NDArray[np.float32],
    digits: NDArray[np.int64],
    trained: NDArray[np.int64],
    scored: NDArray[np.int64],
) -> float:
    forest.fit(pixels[trained], digits[trained])
    return float(forest.score(pixels[scored], digits[scored]))
