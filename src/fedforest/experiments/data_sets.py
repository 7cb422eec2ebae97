"""The papers' data sets, read from Parquet files that are not part of the package.

They are looked for in the folder named by FEDFOREST_DATA, else in `../shared/data`; they are never
fetched. Every file has its features first and a last column `target`.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    import pandas as pd

FOLDER_VARIABLE = "FEDFOREST_DATA"
DEFAULT_FOLDER = Path("..") / "shared" / "data"
GROUP_KEYS = {"parkinson": ("id",)}  # a subject's number: it says which rows belong together


@dataclass(frozen=True, slots=True, eq=False)
class PaperDataSet:
    """A table of numbers with its target; `task` is "classification" or "regression"."""

    name: str
    task: str
    X: NDArray[Any]
    y: NDArray[Any]


def data_folder() -> Path:
    """Return the folder of the data sets."""
    return Path(os.environ.get(FOLDER_VARIABLE, DEFAULT_FOLDER))


def reason_missing(name: str) -> str | None:
    """Why this data set cannot be read here; None when it can."""
    if not _path_of(name).is_file():
        return (
            f"{name}.parquet is not in the data folder; set {FOLDER_VARIABLE} to the folder that "
            "holds it"
        )
    if not all(find_spec(library) for library in ("pandas", "pyarrow")):
        return "reading Parquet needs pandas and pyarrow; install both"
    return None


def read_data_set(name: str, task: str) -> PaperDataSet:
    """Read a data set of numeric columns; raises `ConfigurationError` where it is missing."""
    frame, target = read_frame(name)
    texts = text_columns(frame)
    if texts:
        raise DataError(
            f"The data set {name!r} has {len(texts)} column(s) that are not numbers; this "
            "experiment compares with a library that reads numbers only."
        )
    y = target.astype(np.float64) if task == "regression" else target.astype(str)
    return PaperDataSet(name, task, frame.to_numpy(), y)


def read_frame(name: str) -> tuple["pd.DataFrame", NDArray[Any]]:
    """The features as they are stored, and the target; raises where the data set is missing."""
    reason = reason_missing(name)
    if reason is not None:
        raise ConfigurationError(f"The data set {name!r} cannot be read: {reason}.")
    import pandas as pd  # noqa: PLC0415 - an extra that only experiments need

    frame = pd.read_parquet(_path_of(name))
    target = frame.pop("target").to_numpy()
    return frame.drop(columns=list(GROUP_KEYS.get(name, ()))), target


def text_columns(frame: "pd.DataFrame") -> list[str]:
    """Names of the columns that hold no numbers."""
    return [column for column in frame.columns if frame[column].dtype.kind not in "biuf"]


def _path_of(name: str) -> Path:
    return data_folder() / f"{name}.parquet"
