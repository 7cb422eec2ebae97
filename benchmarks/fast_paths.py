"""The special fast paths of the package, how each is switched off, and what that costs.

A path is switched off from here: a function or a constant gets its simple form for a while, and
the package carries no flags. A path inside a kernel is switched off by compiling the outermost
kernel once more, with other names in its globals.

Run as `python -m benchmarks.fast_paths` by `ablations.py`: a request as JSON on the input, the
costs by arm as JSON on the last line of the output. All arms share one process, because equal
processes differ by more than most paths are worth.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np
from numba import njit

import fedforest
from benchmarks.measure import interleave, timed
from benchmarks.tasks import QUICK_ROWS, SEED, Split, make_split, read_real
from fedforest.estimators.pooled import PooledForest
from fedforest.kernels.cuts import moves
from fedforest.kernels.growth import partition
from fedforest.kernels.layout import N_CODES
from fedforest.kernels.splits import binary, classes, moments
from fedforest.kernels.splits.binary_histogram import fill_one, mark_one
from fedforest.protocol.vertical.prediction import plan as prediction_plan
from fedforest.runtime import driver
from fedforest.tree.growth import point_search, rows, side_by_side, split_search

N_ROWS, N_TREES, QUICK_TREES, N_THREADS = 100_000, 20, 2, 2
LEAST_REPEATS, MOST_SECONDS = 3, 40.0  # of a task in one process, about
AS_IT_IS, AGAIN = "as it is", "as it is, again"

Replacement = tuple[Any, str, Any]  # owner, name, simple form
Costs = dict[str, dict[str, list[float]]]  # by arm "wall" and "cpu", one entry for each repeat


@dataclass(frozen=True)
class FastPath:
    """One special way; `find_simple_form` says what takes its place."""

    name: str
    home: str  # the file that would go
    works: tuple[str, ...]  # beginnings of the names of tasks that take it
    find_simple_form: Callable[[], list[Replacement]]

    @contextmanager
    def switched_off(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, simple_form in self.find_simple_form():
                stack.enter_context(patch.object(owner, name, simple_form))
            yield


def recompile(kernel: Any, **names: Any) -> Any:
    """The kernel with other names in its globals; in this process alone, never on the disk."""
    simple = kernel.py_func
    changed = FunctionType(simple.__code__, {**simple.__globals__, **names}, simple.__name__)
    return njit(nogil=True, error_model="numpy")(changed)


@njit(nogil=True, error_model="numpy")
def fill_each(  # type: ignore[no-untyped-def] # noqa: PLR0913, PLR0917 - as in the kernels
    bins, n_rows, features, low, count, entries, span, row_bits, increments, histogram
):
    """The columns one after the other."""
    for slot in range(count):
        base, own = features[low + slot] * n_rows, histogram[slot * N_CODES :]
        fill_one(bins, base, entries, span, row_bits, increments, own)


@njit(nogil=True, error_model="numpy")
def mark_each(  # type: ignore[no-untyped-def] # noqa: PLR0913, PLR0917 - as in the kernels
    bins, n_rows, features, low, count, entries, span, row_bits, increments, histogram, occupied
):
    """The same, noting which bins are occupied."""
    for slot in range(count):
        base, own = features[low + slot] * n_rows, histogram[slot * N_CODES :]
        marks = occupied[slot * 4 :]
        mark_one(bins, base, entries, span, row_bits, increments, own, marks)


@njit
def never(*_):  # type: ignore[no-untyped-def]
    """In place of a question."""
    return False


CARRY = driver._carry
FIND_BINARY_BY_COLUMN = recompile(
    binary.find_binary, fill_columns=fill_each, mark_columns=mark_each
)
FIND_WITHOUT_PACKED_CLASSES = recompile(classes.find_by_classes, search_packed=classes.search_wide)
FIND_WITHOUT_SORTED_COLUMNS = recompile(moments.find_by_moments, LARGEST_SORTED=0)
MOVE_BY_VALUES = recompile(moves.move_by_cuts, is_same_cut=never)
MOVE_SMALL_AS_LARGE = recompile(
    moves.move_by_cuts, part_by_marks=recompile(moves.part_by_marks, MOST_EIGHTS=np.uint64(0))
)
MOVE_ONE_BY_ONE = recompile(
    partition.move_rows,
    move_both=recompile(partition.move_both, packs_lanes=never),
    move_one=recompile(partition.move_one, packs_lanes=never),
)


def _carry_without_reading(ask: Any, *others: Any) -> Any:
    return CARRY(replace(ask, read=None), *others)


def _leap_never(estimate: Any) -> Any:
    return np.full(len(estimate._active) - 1, np.inf)


VERTICAL, HORIZONTAL = ("vertical training",), ("horizontal training",)
REGRESSION = ("vertical training, superconduct",)
MANY_CLASSES = ("vertical training, letter", "vertical training, multiclass")
TWO_CLASSES = ("spambase", "credit_default", "binary")
VERTICAL_TWO = tuple(f"vertical training, {table}" for table in TWO_CLASSES)

FAST_PATHS = (
    FastPath(
        "replies read as they come",
        "protocol/asking.py",
        (*VERTICAL, *HORIZONTAL),
        lambda: [(driver, "_carry", _carry_without_reading)],
    ),
    FastPath(
        "three columns at once",
        "kernels/splits/binary_histogram.py",
        VERTICAL_TWO,
        lambda: [(split_search, "find_binary", FIND_BINARY_BY_COLUMN)],
    ),
    FastPath(
        "packed classes",
        "kernels/splits/packed_classes.py",
        MANY_CLASSES,
        lambda: [(split_search, "find_by_classes", FIND_WITHOUT_PACKED_CLASSES)],
    ),
    FastPath(
        "sorted columns",
        "kernels/splits/sorted_columns.py",
        REGRESSION,
        lambda: [(split_search, "find_by_moments", FIND_WITHOUT_SORTED_COLUMNS)],
    ),
    FastPath(
        "tiles",
        "kernels/cuts/tiles.py",
        HORIZONTAL,
        lambda: [(point_search, "PAIRS_WORTH_A_TILE", 2**31)],
    ),
    FastPath(
        "sides noted in counting",
        "kernels/cuts/moves.py",
        HORIZONTAL,
        lambda: [(point_search, "move_by_cuts", MOVE_BY_VALUES)],
    ),
    FastPath(
        "small nodes moved by eights",
        "kernels/cuts/moves.py",
        HORIZONTAL,
        lambda: [(point_search, "move_by_cuts", MOVE_SMALL_AS_LARGE)],
    ),
    FastPath(
        "table by row",
        "tree/growth/point_search.py",
        HORIZONTAL,
        lambda: [(point_search, "VALUES_OF_A_CACHE", 2**62)],
    ),
    FastPath(
        "eight rows at once",
        "kernels/bits/entry_lanes.py",
        (*VERTICAL, "pooled training"),
        lambda: [(rows, "move_rows", MOVE_ONE_BY_ONE)],
    ),
    FastPath(
        "trees side by side",
        "tree/growth/side_by_side.py",
        ("pooled training",),
        lambda: [(side_by_side, "divide_trees", lambda trees, _: [trees])],
    ),
    FastPath(
        "sweep",
        "kernels/prediction/sweep.py",
        ("vertical prediction",),
        lambda: [(prediction_plan, "MAX_SWEPT_LEVELS", 0)],
    ),
    FastPath(
        "leap",
        "kernels/prediction/leap.py",
        ("vertical prediction",),
        lambda: [(prediction_plan._Estimate, "leaps", _leap_never)],
    ),
)


REAL_TABLES = ("spambase", "letter", "credit_default", "superconduct")
SYNTHETIC_TABLES = ("binary", "multiclass")
TASKS = tuple(
    f"{work}, {table}"
    for work in (
        "vertical training",
        "horizontal training",
        "pooled training",
        "vertical prediction",
    )
    for table in (*REAL_TABLES, *SYNTHETIC_TABLES)
)


def find_paths(task: str) -> dict[str, FastPath]:
    """The fast paths that a task takes, by name."""
    return {path.name: path for path in FAST_PATHS if task.startswith(path.works)}


def read_split(table: str, *, quick: bool) -> Split | str:
    """A real table, or the synthetic one of a kind; or the reason why there is none."""
    if table in SYNTHETIC_TABLES:
        return make_split(table, QUICK_ROWS if quick else N_ROWS)
    return read_real(table)


def open_task(task: str, split: Split, *, quick: bool) -> Callable[[], object]:
    """What a task does: training or prediction with default settings and few trees."""
    work, table = task.split(", ")
    options: dict[str, Any] = {
        "n_estimators": QUICK_TREES if quick else N_TREES,
        "random_state": SEED,
        "n_jobs": N_THREADS,
    }
    is_regression = table == "superconduct"
    face = "Regressor" if is_regression else "Classifier"
    data: dict[str, Any] = {}
    if work.startswith("vertical"):
        forest = getattr(fedforest, f"VerticalForest{face}")(parties=2, **options)
    elif work.startswith("horizontal"):
        forest = getattr(fedforest, f"HorizontalExtraTrees{face}")(**options)
        data["party"] = np.arange(len(split.X_train)) % 2
    else:
        forest = PooledForest(task="regression" if is_regression else "classification", **options)
    fit = partial(forest.fit, split.X_train, split.y_train, **data)
    if work.endswith("training"):
        return fit
    fit()
    return partial(forest.predict, split.X_test)


def measure(
    task: str, names: Sequence[str], repeats: int, *, quick: bool
) -> Costs | dict[str, str]:
    """The costs of a task by arm, or the reason why it cannot be done.

    The arms take turns; each does the task once before, which compiles kernels.
    """
    split = read_split(task.split(", ")[1], quick=quick)
    if isinstance(split, str):
        return {"reason": split}
    do, paths = open_task(task, split, quick=quick), find_paths(task)
    arms: dict[str, Callable[[], Any]] = {AS_IT_IS: nullcontext, AGAIN: nullcontext}
    arms |= {name: paths[name].switched_off for name in names}
    for switched in arms.values():
        with switched():
            do()
    costs: Costs = {arm: {"wall": [], "cpu": []} for arm in arms}
    _, once = timed(do)
    most = max(LEAST_REPEATS, int(MOST_SECONDS / (once.wall * len(arms))))
    for _, arm in interleave(list(arms), min(repeats, most)):
        with arms[arm]():
            _, cost = timed(do)
        costs[arm]["wall"].append(cost.wall)
        costs[arm]["cpu"].append(cost.cpu)
    return costs


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    found = measure(asked["task"], asked["paths"], asked["repeats"], quick=asked["quick"])
    print(json.dumps(found))
