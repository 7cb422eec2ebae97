"""The ids behind rows of a prediction, for the party that has them: they go nowhere else.

A prediction over aligned data sets comes in an order that only parties know. Whoever can read a
party's folder can put the ids of its rows beside the predictions.
"""

from pathlib import Path
from typing import Any

from fedforest.errors import DataError
from fedforest.runtime.alignments import Alignments
from fedforest.runtime.catalogue.catalogue import Catalogue


def read_ids(home: Path, data: str, alignment: str | None) -> Any:
    """Id columns as a pyarrow table, in the order of an alignment, or else of the data set."""
    data_set = Catalogue(home).read(data)
    if data_set.id_columns is None:
        raise DataError(f"data set {data!r} has no id column; add it anew with --id COLUMN")
    if alignment is None:
        return data_set.id_columns
    return data_set.id_columns.take(Alignments(home / "alignments").rows_of(alignment, data_set))
