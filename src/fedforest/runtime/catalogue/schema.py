"""The columns that a data set had when its owner added it, and what has become of them since.

A run must not find other columns than those that the owner looked at: a new one might be one that
was never to leave, a missing one would break models. So a difference stops runs until the owner
accepts it. What counts is what a column is to a model, not how wide its numbers are.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedforest.errors import DataError
from fedforest.runtime.catalogue.columns import kind_of
from fedforest.runtime.catalogue.entries import Entry
from fedforest.runtime.run_store import write_file

Schema = dict[str, str]  # what each column is: "number", "category", "id", or another type


def describe_schema(raw: Any, entry: Entry) -> Schema:
    """What the columns of a source are, as it was read."""
    return {
        name: "id" if name in entry.id else entry.types.get(name) or _infer(column)
        for name, column in zip(raw.column_names, raw.columns, strict=True)
    }


def _infer(column: Any) -> str:
    return kind_of(column) or str(column.type)


def list_changes(noted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What differs, column by column, in words."""
    gone = [f"column {name!r} is gone" for name in noted if name not in found]
    new = [f"column {name!r} is new" for name in found if name not in noted]
    other = [
        f"column {name!r} was a {noted[name]} and is a {found[name]}"
        for name in noted
        if name in found and noted[name] != found[name]
    ]
    return gone + new + other


def check_schema(name: str, noted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise `DataError` where columns changed; peers are told no name (`transport/error_table`)."""
    changes = list_changes(noted, found)
    if changes:
        more = f", and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise DataError(
            f"data set {name!r} has changed since it was added: {'; '.join(changes[:5])}{more}. "
            "Put it back as it was, or accept it with `fedforest party data add --replace`"
        )


def load_schema(path: Path) -> Schema | None:
    """What was noted; None where nothing was, as of an entry that was written by hand."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Schema)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        raise DataError(
            f"{path} cannot be read; accept the data set as it is now with `fedforest party data "
            "add --replace`"
        ) from None


def save_schema(path: Path, schema: Schema) -> None:
    """Note the columns."""
    write_file(path, msgspec.json.format(msgspec.json.encode(schema)) + b"\n")
