"""Rows that say, by their index, that they are in another order than a table's.

scikit-learn goes by position and ignores indexes. Where an index holds the same rows in another
order, position would give rows the labels of others, without a word; that is refused.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from fedforest.errors import DataError
from fedforest.tree.table.data_frames import row_labels


def check_tables(tables: Mapping[str, Any]) -> None:
    """Refuse data frames of parties whose rows are the same in another order."""
    indexes = [(party, row_labels(table)) for party, table in tables.items()]
    labelled = [(party, index) for party, index in indexes if index is not None]
    for (first, index), (party, other) in pairwise(labelled):
        if _is_reordered(index, other):
            raise DataError(
                f"the indexes of {first!r} and {party!r} hold the same rows in another order; "
                "bring the tables into one order first, for example with reindex"
            )


def check_vectors(X: Any, whose: str = "", **vectors: Any) -> None:
    """Refuse series, such as y, whose rows are those of the data frame X in another order."""
    index = row_labels(X)
    if index is None:
        return
    for name, vector in vectors.items():
        other = row_labels(vector)
        if other is not None and _is_reordered(index, other):
            raise DataError(
                f"{whose}the index of {name} holds the rows of X in another order; bring it into "
                f"the order of X first, {name}.reindex(X.index), or pass an array if the order is "
                "right and the index is not"
            )


def _is_reordered(index: Any, other: Any) -> bool:
    is_same_size = len(index) == len(other) and not index.equals(other)
    return is_same_size and bool(index.isin(other).all() and other.isin(index).all())
