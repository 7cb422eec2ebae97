"""The papers' tables, read from Parquet files that are not part of the package, or made.

They are looked for in the folder named by FEDFOREST_DATA, else in `../shared/data` where that is a
folder, else in `papers-data`. Every file has its features first and a last column `target`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.experiments.data.catalogue import DATA_SETS, PaperDataSet
from fedforest.experiments.data.synthetic import make_features_and_target

if TYPE_CHECKING:
    import pandas as pd

FOLDER_VARIABLE = "FEDFOREST_DATA"
FOLDER_BESIDE = Path("..") / "shared" / "data"  # of all clones of the project
DEFAULT_FOLDER = Path("papers-data")
QUICK_ROWS, QUICK_COLUMNS = 1_000, 200
N_MADE_GROUPS = 8
BANK_COLUMNS = 11  # of target marketing; the others are the shop's


@dataclass(frozen=True, slots=True, eq=False)
class PaperTable:
    """A table with its target.

    `codes` are numbers in every column: texts are their places in the alphabet. `X` is the same
    with texts as categories, where there are any. `groups` names columns that belong together.
    """

    name: str
    task: str
    X: Any
    codes: NDArray[Any]
    y: NDArray[Any]
    is_made: bool = False
    groups: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of_numbers(cls, name: str, task: str, X: NDArray[Any], y: NDArray[Any]) -> "PaperTable":
        """Return a table without texts."""
        return cls(name, task, X, X, y)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_columns = self.codes.shape
        return n_rows, n_columns

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y)) if self.task == "classification" else 0

    def rows(self, rows: Any) -> Any:
        """Return these rows as our estimators read them."""
        return self.X[rows] if isinstance(self.X, np.ndarray) else self.X.iloc[rows]


def data_folder() -> Path:
    """Return the folder of the data sets."""
    beside = FOLDER_BESIDE if FOLDER_BESIDE.is_dir() else DEFAULT_FOLDER
    return Path(os.environ.get(FOLDER_VARIABLE, beside))


def path_of(name: str) -> Path:
    return data_folder() / f"{name}.parquet"


def reason_missing(name: str) -> str | None:
    """Say in two lines why this data set cannot be read here; None when it can."""
    if DATA_SETS[name].is_made:
        return None
    if not all(find_spec(library) for library in ("pandas", "pyarrow")):
        return "reading Parquet needs pandas and pyarrow; install both"
    if path_of(name).is_file():
        return None
    data = DATA_SETS[name]
    return (
        f"{name}.parquet is missing: get {', '.join(data.originals)} from {data.source}\n"
        f"and run `fedforest data fetch {name} --from FOLDER`, or set {FOLDER_VARIABLE} to the "
        "folder that holds it; --synthetic runs on made tables"
    )


def read_table(name: str, *, synthetic: bool = False, quick: bool = False) -> PaperTable:
    """Read or make a table, in a quick run a part of it; raises where it is missing."""
    if synthetic or DATA_SETS[name].is_made:
        return _make(DATA_SETS[name], quick=quick)
    frame, target = read_frame(name)
    if quick:
        rows = np.random.default_rng(0).permutation(len(target))[:QUICK_ROWS]
        frame, target = frame.iloc[rows].reset_index(drop=True), target[rows]
    task = DATA_SETS[name].task
    y = target.astype(np.float64) if task == "regression" else target.astype(str)
    groups = _group_columns(DATA_SETS[name])
    texts = text_columns(frame)
    if not texts:
        X = frame.to_numpy()
        return PaperTable(name, task, X, X, y, groups=groups)
    frame = frame.astype(dict.fromkeys(texts, "category"))
    codes = frame.assign(**{text: frame[text].cat.codes for text in texts})
    return PaperTable(name, task, frame, codes.to_numpy(np.float32), y, groups=groups)


def read_frame(name: str) -> tuple["pd.DataFrame", NDArray[Any]]:
    """The features as they are stored, and the target; raises where the data set is missing."""
    reason = reason_missing(name)
    if reason is not None:
        raise ConfigurationError(f"The data set {name!r} cannot be read: {reason}.")
    import pandas as pd  # noqa: PLC0415 - an extra that only experiments need

    frame = pd.read_parquet(path_of(name))
    target = frame.pop("target").to_numpy()
    return frame.drop(columns=list(DATA_SETS[name].group_keys)), target


def text_columns(frame: "pd.DataFrame") -> list[str]:
    """Names of the columns that hold no numbers."""
    return [column for column in frame.columns if frame[column].dtype.kind not in "biuf"]


def _make(data: PaperDataSet, *, quick: bool) -> PaperTable:
    n_rows = min(data.n_rows, QUICK_ROWS) if quick else data.n_rows
    n_columns = min(data.n_columns, QUICK_COLUMNS) if quick else data.n_columns
    X, y = make_features_and_target(data, n_rows, n_columns)
    target = y if data.task == "regression" else y.astype(str)
    groups = _make_groups(data.name, n_columns)
    return PaperTable(data.name, data.task, X, X, target, is_made=True, groups=groups)


def _make_groups(name: str, n_columns: int) -> dict[str, NDArray[np.int64]]:
    columns = np.arange(n_columns)
    if name == "target_marketing":
        return {"bank": columns[:BANK_COLUMNS], "shop": columns[BANK_COLUMNS:]}
    parts = np.array_split(columns, N_MADE_GROUPS)
    return {f"group {number}": part for number, part in enumerate(parts, start=1)}


def _group_columns(data: PaperDataSet) -> dict[str, NDArray[np.int64]]:
    ends = data.n_ungrouped + np.cumsum([size for _, size in data.groups], dtype=np.int64)
    return {
        group: np.arange(end - size, end)
        for (group, size), end in zip(data.groups, ends, strict=True)
    }
