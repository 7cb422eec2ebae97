"""Profile a data set for its owner: each column in a few numbers, and the first rows.

The profile is shown on the owner's machine only and never sent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedforest.runtime.party.catalogue.columns import kind_of
from fedforest.runtime.party.data_sets import DataSet

N_TOP = 3
N_PREVIEWED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One column; figures that do not apply to its kind are None or empty."""

    name: str
    kind: str
    n_distinct: int
    missing_share: float
    smallest: float | None = None
    largest: float | None = None
    mean: float | None = None
    top: tuple[tuple[Any, int], ...] = ()  # the most frequent categories, and how often


def profile_columns(data: DataSet) -> list[ColumnProfile]:
    """Profile the ids first, then the columns in their order."""
    ids = data.id_columns
    found = [] if ids is None else [_profile(*named, "id") for named in _columns(ids)]
    for name, column in _columns(data.columns):
        found.append(_profile(name, column, kind_of(column) or "number"))
    return found


def preview_rows(data: DataSet, n_rows: int = N_PREVIEWED) -> list[dict[str, Any]]:
    """Return the first rows, ids included."""
    ids = [] if data.id_columns is None else data.id_columns.slice(0, n_rows).to_pylist()
    rows = data.columns.slice(0, n_rows).to_pylist()
    return [{**left, **right} for left, right in zip(ids or [{}] * len(rows), rows, strict=True)]


def _columns(table: Any) -> Iterator[tuple[str, Any]]:
    return zip(table.column_names, table.columns, strict=True)


def _profile(name: str, column: Any, kind: str) -> ColumnProfile:
    import pyarrow.compute as pc  # noqa: PLC0415 - only parties with tables need it

    shares = {
        "n_distinct": pc.count_distinct(column, mode="only_valid").as_py(),
        "missing_share": column.null_count / max(1, len(column)),
    }
    if kind == "number":
        shares |= _measure(column)
    elif kind == "category":
        shares["top"] = _find_top(column)
    return ColumnProfile(name=name, kind=kind, **shares)


def _measure(column: Any) -> dict[str, float | None]:
    import pyarrow  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    values = column.cast(pyarrow.float64(), safe=False)
    ends = pc.min_max(values).as_py()
    return {"smallest": ends["min"], "largest": ends["max"], "mean": pc.mean(values).as_py()}


def _find_top(column: Any) -> tuple[tuple[Any, int], ...]:
    import pyarrow  # noqa: PLC0415 - as above

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    counted = column.drop_null().value_counts().to_pylist()
    counted.sort(key=lambda entry: (-entry["counts"], str(entry["values"])))
    return tuple((entry["values"], entry["counts"]) for entry in counted[:N_TOP])
