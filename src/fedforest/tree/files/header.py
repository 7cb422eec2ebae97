"""The header of a model file: the kind of model, its metadata, and the positions of its arrays.

The checksum shows that a header is intact, not who wrote it: every field is checked before it is
used, and the arrays it describes must follow each other without gap.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from fedforest.errors import DamagedModelError, ModelFileError
from fedforest.tree.canonical_json import (
    JsonValue,
    has_text_keys,
    plain_json,
    read_canonical,
    write_canonical,
)

ALIGNMENT = 64  # a cache line, and the widest vector load
MAX_HEADER_BYTES = 4 << 20  # parsed JSON can take 20 times its text
MAX_DIMENSIONS = 32
_MAX_EXTENT = 2**63 - 1  # what numpy can address, also for arrays that are empty

_NUMBER_CODES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8")
DTYPES = {"bool": np.dtype("?"), **{code: np.dtype(f"<{code}") for code in _NUMBER_CODES}}
# Names appear in error messages, so they cannot carry control characters or long text.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}", re.ASCII)
_FIELDS = {"arrays", "kind", "metadata"}


class FileSection(NamedTuple):
    """One array's entry in the header; `offset` and `length` are in bytes."""

    dtype: str
    length: int
    name: str
    offset: int
    sha256: str
    shape: list[int]


def write_header(
    kind: str, metadata: Mapping[str, JsonValue], sections: Sequence[FileSection]
) -> bytes:
    """Return the text of a header; raises `ModelFileError` where metadata cannot be stored."""
    if not has_text_keys(metadata):
        raise ModelFileError("cannot store the model: a key of the metadata is not text")
    fields = {
        "arrays": [section._asdict() for section in sections],
        "kind": kind,
        "metadata": {
            key: plain_json(value, where=f"metadata {key!r}", depth=3)
            for key, value in metadata.items()
        },
    }
    try:
        header = write_canonical(fields)
    except UnicodeEncodeError:
        raise ModelFileError("cannot store the model: metadata is not valid Unicode") from None
    if len(header) > MAX_HEADER_BYTES:
        raise ModelFileError(
            f"cannot store the model: its header is over {MAX_HEADER_BYTES} bytes; "
            "move long lists of metadata into arrays"
        )
    return header


def read_header(header: bytes) -> tuple[str, dict[str, JsonValue], list[FileSection]]:
    """Read kind, metadata and sections of a header; raises `DamagedModelError`."""
    try:
        fields = read_canonical(header)
    except ValueError as error:
        raise damaged("header", str(error)) from None
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        raise damaged("header", "it has missing or unknown fields")
    kind, metadata, entries = fields["kind"], fields["metadata"], fields["arrays"]
    if not (is_name(kind) and isinstance(metadata, dict) and isinstance(entries, list)):
        raise damaged("header", "a field has the wrong type")
    return kind, metadata, _read_sections(entries)


def _read_sections(entries: list[object]) -> list[FileSection]:
    """Check that the sections follow each other without gap, overlap or repeated name."""
    sections: list[FileSection] = []
    offset = 0
    for entry in entries:
        section = _read_section(entry)
        if section.offset != offset:
            raise damaged(f"array {section.name!r}", "it does not begin where the last one ends")
        if sections and section.name <= sections[-1].name:
            raise damaged(f"array {section.name!r}", "its name is repeated or out of order")
        sections.append(section)
        offset += aligned(section.length)
    return sections


def _read_section(entry: object) -> FileSection:
    if not isinstance(entry, dict) or entry.keys() != set(FileSection._fields):
        raise damaged("header", "an array has missing or unknown fields")
    if not is_name(entry["name"]):
        raise damaged("header", "an array has no usable name")
    where = f"array {entry['name']!r}"
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in DTYPES:
        raise damaged(where, f"its dtype is not one of {', '.join(DTYPES)}")
    shape, itemsize = entry["shape"], DTYPES[entry["dtype"]].itemsize
    if not _is_shape(shape):
        raise damaged(where, "its shape is not a short list of counts")
    if math.prod(max(n, 1) for n in shape) * itemsize > _MAX_EXTENT:
        raise damaged(where, "its shape is too large to address")
    if not _is_count(entry["length"]) or entry["length"] != math.prod(shape) * itemsize:
        raise damaged(where, "its length does not follow from its shape")
    if not _is_count(entry["offset"]) or not isinstance(entry["sha256"], str):
        raise damaged(where, "its offset or checksum is malformed")
    return FileSection(**entry)


def is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0  # a JSON true is an int to isinstance


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_DIMENSIONS and all(map(_is_count, value))


def aligned(n_bytes: int) -> int:
    """Return a number of bytes rounded up to a multiple of the alignment."""
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def damaged(section: str, reason: str) -> DamagedModelError:
    return DamagedModelError(f"model file is damaged in its {section}: {reason}; get a fresh copy")
