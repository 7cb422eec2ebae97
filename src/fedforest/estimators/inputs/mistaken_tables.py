"""Objects passed by mistake in place of a table, refused with advice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from fedforest.errors import DataError
from fedforest.tree.table.data_frames import is_frame
from fedforest.tree.table.frames import list_names

_TABLES = (
    "a table is an array of rows and columns, a list of rows, a data frame (of pandas, polars, "
    "pyarrow or modin) or a mapping from column to values"
)
_BY_PARTY = "pass a mapping from party to table: {'bank': ..., 'shop': ...}"


def refuse_no_table(X: Any) -> None:
    """Raise for nothing, names of files and lists of tables; other mistakes are told on reading."""
    if X is None:
        raise DataError(f"the table is None; {_TABLES}")
    if isinstance(X, str | bytes | PathLike):
        raise DataError(
            f"the table is a text or the name of a file; read it first, for example with "
            f"pandas.read_csv: {_TABLES}. Names of data sets need transport=..."
        )
    if isinstance(X, list | tuple) and X:
        _refuse_list_of_tables(X)


def _refuse_list_of_tables(X: Sequence[Any]) -> None:
    if any(_is_table(part) for part in X):
        raise DataError(f"X is a list of tables, so that none has a name; {_BY_PARTY}")
    if all(_is_named_table(part) for part in X):
        repeated = [name for name, count in Counter(part[0] for part in X).items() if count > 1]
        more = f". Names must differ, but {list_names(repeated)} is repeated" if repeated else ""
        raise DataError(f"X is a list of parties and tables; {_BY_PARTY}{more}")


def _is_named_table(part: Any) -> bool:
    """Return whether it is a pair of a party and its table; a row may begin with a text as well."""
    is_pair = isinstance(part, list | tuple) and len(part) == 2 and isinstance(part[0], str)
    return is_pair and (_is_table(part[1]) or isinstance(part[1], Mapping | list | tuple))


def _is_table(part: Any) -> bool:
    return is_frame(part) or getattr(part, "ndim", 0) == 2
