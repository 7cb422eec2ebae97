"""A fingerprint of the rows that were read from a database, by which a change is noticed.

It depends on names, types, values and the order of rows, and not on how a driver cuts rows into
batches. Each column has checksums of 32 bits: of its values, of the lengths of its texts, and of
which are missing. What was changed by mistake is missed once in four billion times. It protects
nobody from an owner, who may change what they like, and it stays with the party.
"""

import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np


def fingerprint_rows(table: Any) -> str:
    """Return a text that changes whenever a pyarrow table does."""
    digest = blake2b(digest_size=16, person=b"rows of a table")
    digest.update(f"{table.num_rows}".encode())
    for name in table.column_names:
        column = table.column(name)  # one at a time: a table may be larger than memory
        digest.update(f"\0{name}\0{column.type}".encode())
        digest.update(np.array(_checksum(column), "<u4").tobytes())
    return digest.hexdigest()


def _checksum(column: Any) -> list[int]:
    """Return the checksums of which values are missing, and of the bytes of the others."""
    sums, first_row = [0, 0, 0], 0
    for chunk in column.chunks:
        for place, part in _parts(chunk, first_row):
            sums[place] = zlib.crc32(part, sums[place])
        first_row += len(chunk)
    return sums


def _parts(chunk: Any, first_row: int) -> Iterator[tuple[int, Any]]:
    """Yield the bytes of an array, each with the number of the checksum that they go into."""
    if chunk.null_count:
        is_missing = chunk.is_null().to_numpy(zero_copy_only=False)
        yield 0, np.flatnonzero(is_missing) + first_row
        chunk = chunk.drop_null()
    yield from _values(chunk)


def _values(chunk: Any) -> Iterator[tuple[int, Any]]:
    """Yield the bytes of an array without missing values."""
    import pyarrow  # noqa: PLC0415 - only parties with tables need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    kind, types = chunk.type, pyarrow.types
    if isinstance(chunk, pyarrow.ExtensionArray):
        yield from _values(chunk.storage)
    elif types.is_dictionary(kind):
        yield from _values(chunk.dictionary_decode())
    elif types.is_boolean(kind):
        yield 1, _fixed(chunk.cast("uint8"))
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        yield 2, _fixed(pc.binary_length(chunk))
        yield 1, _text(chunk)
    elif types.is_primitive(kind) or types.is_decimal(kind):
        yield 1, _fixed(chunk)
    else:  # lists and the like, which no run uses
        yield 1, b"".join(repr(value).encode() + b"\0" for value in chunk.to_pylist())


def _fixed(chunk: Any) -> memoryview:
    """Return the bytes of values that all have the same size."""
    size = chunk.type.bit_width // 8
    buffer = chunk.buffers()[1]
    if buffer is None:
        return memoryview(b"")
    return memoryview(buffer)[chunk.offset * size : (chunk.offset + len(chunk)) * size]


def _text(chunk: Any) -> memoryview:
    """Return the bytes of all texts, one after the other."""
    offsets, text = chunk.buffers()[1:]
    if offsets is None or text is None:
        return memoryview(b"")
    kind = "<i8" if str(chunk.type).startswith("large") else "<i4"
    places = np.frombuffer(offsets, kind)
    return memoryview(text)[places[chunk.offset] : places[chunk.offset + len(chunk)]]
