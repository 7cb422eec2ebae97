"""Predictions in a file: the number of each row, the prediction, how likely each class is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedforest.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_SUFFIXES = (".parquet", ".csv")


def check_name(path: Path) -> None:
    """Refuse a file that could not be written in the end, before anybody computes anything."""
    if path.suffix not in _SUFFIXES:
        raise ConfigurationError(f"{path}: predictions are written to a .parquet or .csv file")
    if not path.parent.is_dir():
        raise ConfigurationError(f"{path}: there is no folder {path.parent}")


def make_table(votes: NDArray[Any], classes: NDArray[Any] | None, ids: Any = None) -> Any:
    """Return (rows, classes) votes, or (rows, 1) values without classes, as a pyarrow table.

    Columns of ids, where the party that has them is asked, come behind the number of the row.
    """
    import numpy as np
    import pyarrow

    columns: dict[str, Any] = {"row": np.arange(len(votes))}
    if ids is not None:
        columns |= dict(zip(ids.column_names, ids.columns, strict=True))
    if classes is None:
        columns["value"] = votes[:, 0]
    else:
        columns["predicted"] = classes[votes.argmax(axis=1)]
        for number, label in enumerate(classes.tolist()):
            columns[f"probability_{label}"] = votes[:, number]
    return pyarrow.table(columns)


def write_table(table: Any, path: Path) -> None:
    """A file that is there as a whole or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    draft = path.with_name(path.name + ".draft")
    write = pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table
    try:
        write(table, draft)
        draft.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def read_local_table(path: Path) -> Any:
    """Return a table that is here, in a Parquet or CSV file."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    readers = {".parquet": pyarrow.parquet.read_table, ".csv": pyarrow.csv.read_csv}
    if path.suffix not in readers:
        raise ConfigurationError(f"{path} is no .parquet or .csv file; convert it to one of these")
    try:
        return readers[path.suffix](path)
    except (OSError, pyarrow.ArrowException) as error:
        kind = type(error).__name__  # its text may quote what the file holds
        raise DataError(f"{path} cannot be read ({kind})") from None
