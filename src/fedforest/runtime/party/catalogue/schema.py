"""The columns that a data set had when its owner added it, compared with those it has now.

A run must find the columns that the owner looked at: a new column might be one that must not be
used, a missing one would break models. So a difference stops runs until the owner accepts it. Only
a column's kind is compared, not the width of its numbers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedforest.errors import DataError
from fedforest.runtime.party.catalogue.columns import kind_of
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.catalogue.stored_columns import StoredColumns
from fedforest.runtime.recovery.run_store import write_file

Schema = dict[str, str]  # the kind of each column: "number", "category", "id", or another type


def describe_schema(raw: Any, entry: Entry) -> Schema:
    """Return the kind of each column of a source."""
    raw = raw.head() if isinstance(raw, StoredColumns) else raw
    return {
        name: "id" if name in entry.id else entry.types.get(name) or _infer(column)
        for name, column in zip(raw.column_names, raw.columns, strict=True)
    }


def _infer(column: Any) -> str:
    return kind_of(column) or str(column.type)


def list_changes(noted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """List the differences in words, one for each column."""
    gone = [f"column {name!r} is gone" for name in noted if name not in found]
    new = [f"column {name!r} is new" for name in found if name not in noted]
    other = [
        f"column {name!r} was a {noted[name]} and is a {found[name]}"
        for name in noted
        if name in found and noted[name] != found[name]
    ]
    return gone + new + other


def check_schema(name: str, noted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise `DataError` if columns changed; their names are not sent to peers."""
    changes = list_changes(noted, found)
    if changes:
        more = f", and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise DataError.of("data_set.changed", data_set=name, detail="; ".join(changes[:5]) + more)


def load_schema(path: Path) -> Schema | None:
    """Load the stored columns; None if there are none, as for an entry written by hand."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Schema)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        raise DataError.of("data_set.schema", path=path) from None


def save_schema(path: Path, schema: Schema) -> None:
    """Store the columns."""
    write_file(path, msgspec.json.format(msgspec.json.encode(schema)) + b"\n")
