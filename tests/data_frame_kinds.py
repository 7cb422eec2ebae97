"""The same columns as data frames of every library that can be read, and their series."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

Columns = Mapping[str, Sequence[Any]]


def as_polars_enums(columns: Columns) -> pl.DataFrame:
    """Text as enums, which list their categories beforehand."""
    frame = pl.DataFrame(columns)
    texts = [name for name in frame.columns if frame[name].dtype == pl.String]
    enums = {name: pl.Enum(sorted({"never seen", *frame[name].drop_nulls()})) for name in texts}
    return frame.with_columns(pl.col(name).cast(enum) for name, enum in enums.items())


def as_arrow_dictionaries(columns: Columns) -> pa.Table:
    """Text as dictionaries, in chunks whose dictionaries differ."""
    table = pa.table(columns)
    half = table.num_rows // 2
    chunks = [table.slice(0, half), table.slice(half)]
    encoded = [
        pa.table([_encode(column) for column in chunk.columns], names=chunk.column_names)
        for chunk in chunks
    ]
    return pa.concat_tables(encoded)


def _encode(column: Any) -> Any:
    return column.dictionary_encode() if pa.types.is_string(column.type) else column


KINDS: dict[str, Callable[[Columns], Any]] = {
    "pandas": pd.DataFrame,
    "pandas objects": lambda columns: pd.DataFrame(columns).astype(object),
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas on arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "polars": pl.DataFrame,
    "polars categories": lambda columns: pl.DataFrame(columns).with_columns(
        pl.col(pl.String).cast(pl.Categorical)
    ),
    "polars enums": as_polars_enums,
    "pyarrow": pa.table,
    "pyarrow dictionaries": as_arrow_dictionaries,
    "pyarrow batch": pa.record_batch,
}
if find_spec("modin"):  # no dependency of the tests: it wants an older pandas than they do
    KINDS["modin"] = import_module("modin.pandas").DataFrame
every_kind = pytest.mark.parametrize("kind", KINDS)


def make_series(kind: str, values: Sequence[Any]) -> Any:
    """One column of a data frame: a series, or what its library has instead."""
    return KINDS[kind]({"values": values})["values"]
