"""The Parquet files of data sets: written from original files, and checked."""

import hashlib
import tempfile
from pathlib import Path
from typing import NamedTuple

from fedforest.errors import ConfigurationError
from fedforest.experiments.data.catalogue import DATA_SETS, PaperDataSet
from fedforest.experiments.data.conversion import convert
from fedforest.experiments.data.originals import find_originals
from fedforest.experiments.data.reading import path_of
from fedforest.extras import import_extra

MADE, MISSING, SAME, OTHER, WRONG = "made", "missing", "as expected", "other bytes", "wrong"


class FileState(NamedTuple):
    """What is where a data set should be."""

    state: str
    told: str


def choose_data_sets(names: list[str]) -> list[PaperDataSet]:
    """Return the data sets of these names; `all` stands for every one that has a file."""
    if names == ["all"]:
        return [data for data in DATA_SETS.values() if not data.is_made]
    unknown = [name for name in names if name not in DATA_SETS]
    if unknown:
        raise ConfigurationError(
            f"there is no data set {unknown[0]!r}; `fedforest data list` names them all"
        )
    return [DATA_SETS[name] for name in names]


def check_file(data: PaperDataSet) -> FileState:
    """Compare the file of a data set with the one that published results were measured on."""
    if data.is_made:
        return FileState(MADE, "made from a seed when it is needed; there is no file")
    path = path_of(data.name)
    if not path.is_file():
        return FileState(MISSING, f"get {', '.join(data.originals)} from {data.source}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest == data.sha256:
        return FileState(SAME, "the file that published results were measured on")
    parquet = import_extra("pyarrow.parquet", "reading Parquet")
    metadata = parquet.read_metadata(path)
    shape = metadata.num_rows, metadata.num_columns - 1 - len(data.group_keys)
    if shape != (data.n_rows, data.n_columns):
        return FileState(
            WRONG,
            f"{shape[0]:,} rows and {shape[1]:,} features instead of {data.n_rows:,} and "
            f"{data.n_columns:,}",
        )
    return FileState(OTHER, "the expected shape; scores may differ a little from published ones")


def fetch(data: PaperDataSet, source: str) -> Path:
    """Convert original files from a folder, an archive or a mirror; return the file written."""
    if data.is_made:
        raise ConfigurationError(
            f"{data.name} is made from a seed when it is needed; there is nothing to fetch"
        )
    import_extra("pyarrow", "writing Parquet")
    target = path_of(data.name)
    with tempfile.TemporaryDirectory() as scratch:
        frame = convert(data.name, find_originals(data, source, Path(scratch)))
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".tmp")
    frame.to_parquet(draft, compression="zstd", index=False)
    draft.replace(target)
    return target
