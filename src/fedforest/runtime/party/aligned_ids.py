"""Read the ids of predicted rows at the party that has them; ids are sent nowhere.

A prediction over aligned data sets comes in a row order that only parties know. A reader of a
party's folder can put the ids of its rows beside the predictions.
"""

from pathlib import Path
from typing import Any

from fedforest.errors import DataError
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.catalogue.catalogue import Catalogue


def read_ids(home: Path, data: str, alignment: str | None) -> Any:
    """Return id columns as a pyarrow table, in the order of the alignment or of the data set."""
    data_set = Catalogue(home).read(data)
    if data_set.id_columns is None:
        raise DataError.of("data_set.no_id", data_set=data)
    if alignment is None:
        return data_set.id_columns
    return data_set.id_columns.take(Alignments(home / "alignments").rows_of(alignment, data_set))
