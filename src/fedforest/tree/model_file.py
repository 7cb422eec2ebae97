"""A versioned container for models: bytes in, bytes out, safe to load from a stranger.

Nothing in a file is executed, and no length in it is believed before it was compared with the
bytes that are there. Checksums find accidents; they do not tell who wrote a file. A model has
exactly one encoding, so comparing files compares models. Opening files is left to the callers.

    at      bytes  content (integers are little-endian)
    0       8      signature 89 'F' 'F' 'M' 0D 0A 1A 0A: a text-mode copy changes it  ┐ the same
    8       4      schema version, u32                                                │ in every
    12      4      CRC-32 of bytes 0-11: a damaged version never looks newer          ┘ version
    16      4      header length H, u32
    20      H      header, canonical JSON: keys sorted, no spaces, UTF-8, finite numbers
    20+H    32     SHA-256 of all bytes before it
            0-63   zeros, up to a multiple of 64
    D              array sections in order of name, in C order, each followed by zeros up to a
                   multiple of 64; the last padding ends the file

    header  {"arrays":[{"dtype":"f8","length":24,"name":"gain","offset":0,"sha256":"…",
             "shape":[3]}],"kind":"…","metadata":{…}}                  offsets count from D

A field that the version does not know is refused: a new field is a new version, and free-form
content belongs in `metadata`.
"""

import hashlib
import json
import math
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError, ModelFileError, NewerModelError
from fedforest.tree.large_pages import make_room
from fedforest.tree.workers import ALONE, Workers

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)

_SCHEMA_VERSION = 1
_SIGNATURE = b"\x89FFM\r\n\x1a\n"
_PREAMBLE = struct.Struct("<8sII")
_HEADER_LENGTH = struct.Struct("<I")
_HEADER_START = _PREAMBLE.size + _HEADER_LENGTH.size
_DIGEST_BYTES = 32
_ALIGNMENT = 64  # a cache line, and the widest vector load

_DEFAULT_MAX_BYTES = 4 << 30
_MAX_HEADER_BYTES = 4 << 20  # parsed JSON can take 20 times its text
_MAX_JSON_DEPTH = 32
_MAX_INTEGER_DIGITS = 40  # room for a 128-bit seed; parsing digits costs quadratic time
_MAX_DIMENSIONS = 32
_MAX_EXTENT = 2**63 - 1  # what numpy can address, also for arrays that are empty

_NUMBER_CODES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8")
_DTYPES = {"bool": np.dtype("?"), **{code: np.dtype(f"<{code}") for code in _NUMBER_CODES}}
# Names appear in error messages, so they cannot carry control characters or long text.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}", re.ASCII)
# Strings are matched whole so that brackets inside them do not count as nesting. The
# possessive repeat and the optional closing quote keep the scan linear on hostile text.
_JSON_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]+|\\.)*+"?|[\[\]{}]', re.DOTALL)
_HEADER_FIELDS = {"arrays", "kind", "metadata"}


@dataclass(frozen=True, slots=True, eq=False)
class ModelContents:
    """What a model file holds; arrays are aligned to 64 bytes, and read-only by default."""

    kind: str
    schema_version: int
    metadata: Mapping[str, JsonValue]
    arrays: Mapping[str, NDArray[Any]]


class _Section(NamedTuple):
    """One array's entry in the header; `offset` and `length` are in bytes."""

    dtype: str
    length: int
    name: str
    offset: int
    sha256: str
    shape: list[int]


_Copy: TypeAlias = Callable[[memoryview], NDArray[np.uint8]]  # what array sections are read from


def encode_model(
    kind: str,
    metadata: Mapping[str, JsonValue],
    arrays: Mapping[str, NDArray[Any]],
    workers: Workers = ALONE,
) -> bytes:
    """Return the one encoding of a model; tuples in the metadata come back as lists."""
    return b"".join(list_pieces(kind, metadata, arrays, workers))


def list_pieces(
    kind: str,
    metadata: Mapping[str, JsonValue],
    arrays: Mapping[str, NDArray[Any]],
    workers: Workers = ALONE,
) -> list[memoryview | bytes]:
    """The same in pieces that follow each other; large ones are the arrays where they lie."""
    if not _is_name(kind) or not all(_is_name(name) for name in arrays):
        raise ModelFileError(
            f"cannot store the model: its kind and array names must match {_NAME.pattern}"
        )
    stored = {name: _store_array(name, arrays[name]) for name in sorted(arrays)}
    sha256: dict[str, str] = {}

    def hash_array(name: str) -> None:
        sha256[name] = hashlib.sha256(stored[name][1].data).hexdigest()

    workers.run(hash_array, sorted(stored, key=lambda name: -stored[name][1].nbytes))
    sections: list[_Section] = []
    payload: list[memoryview | bytes] = []
    offset = 0
    for name, (code, content) in stored.items():
        shape = list(arrays[name].shape)
        sections.append(_Section(code, content.nbytes, name, offset, sha256[name], shape))
        payload += [content.data, _padding(content.nbytes)]
        offset += _aligned(content.nbytes)
    header = _encode_header(kind, metadata, sections)
    return [header, _padding(len(header)), *payload]


def decode_model(
    data: bytes | memoryview,
    *,
    expected_kind: str | None = None,
    max_bytes: int = _DEFAULT_MAX_BYTES,
    writable: bool = False,
) -> ModelContents:
    """Check every byte of a model file and return what it holds, in memory of its own.

    Raises `ModelFileError` when `data` is no model, too large or of another kind, and its
    subclasses `DamagedModelError` and `NewerModelError`.
    """
    view = _view(data, max_bytes)
    copy = partial(_copy_aligned, writable=writable)
    contents = _READERS[_read_version(view)](view, copy)
    _check_kind(contents.kind, expected_kind)
    return contents


def verify_model(
    data: bytes | memoryview,
    *,
    expected_kind: str | None = None,
    max_bytes: int = _DEFAULT_MAX_BYTES,
) -> None:
    """Check every byte of a model file that is to be kept, where it lies.

    Raises what `decode_model` would, which verifies again what it takes out.
    """
    view = _view(data, max_bytes)
    contents = _READERS[_read_version(view)](view, np.asarray)
    _check_kind(contents.kind, expected_kind)


def _view(data: bytes | memoryview, max_bytes: int) -> memoryview:
    view = memoryview(data).cast("B")
    if view.nbytes > max_bytes:
        raise ModelFileError(
            f"model file of {view.nbytes} bytes is over the limit of {max_bytes}; "
            "raise max_bytes if you trust its source"
        )
    return view


def _check_kind(kind: str, expected_kind: str | None) -> None:
    if expected_kind is not None and kind != expected_kind:
        raise ModelFileError(
            f"model file holds a {kind!r}, not a {expected_kind!r}; choose another file"
        )


def _read_version(view: memoryview) -> int:
    start = bytes(view[: _PREAMBLE.size])
    if not start.startswith(_SIGNATURE):
        if b"FFM" in start[: len(_SIGNATURE)]:
            raise _damaged("signature", "it is cut short, or a text-mode copy changed it")
        raise ModelFileError("not a fedforest model: the file does not begin with the signature")
    if len(start) < _PREAMBLE.size:
        raise _damaged("preamble", "the file ends inside it")
    _, version, checksum = _PREAMBLE.unpack(start)
    if checksum != zlib.crc32(start[:-4]):
        raise _damaged("preamble", "its checksum does not match")
    if version > _SCHEMA_VERSION:
        raise NewerModelError(
            f"model file has schema version {version}, this release of fedforest reads up to "
            f"version {_SCHEMA_VERSION}; upgrade fedforest to load it"
        )
    if version not in _READERS:
        raise _damaged("preamble", f"schema version {version} was never released")
    return int(version)


def _read_version_1(view: memoryview, copy: _Copy) -> ModelContents:
    header_bytes, end_of_header = _verified_header(view)
    kind, metadata, sections = _parse_header(header_bytes)
    data_start = _aligned(end_of_header)
    _check_file_length(view.nbytes, data_start, sections)
    _check_padding(view[end_of_header:data_start], "header")
    content, arrays = copy(view[data_start:]), {}
    for section in sections:
        end = section.offset + section.length
        arrays[section.name] = _verify_section(section, content[section.offset : end])
        padding = content[end : section.offset + _aligned(section.length)]
        _check_padding(padding.data, f"array {section.name!r}")
    return ModelContents(kind, 1, MappingProxyType(metadata), MappingProxyType(arrays))


# A new schema version adds its reader here; the old ones stay as they are.
_READERS: Mapping[int, Callable[[memoryview, _Copy], ModelContents]] = {1: _read_version_1}


def _verified_header(view: memoryview) -> tuple[bytes, int]:
    """Return the header's JSON and where its checksum ends."""
    if view.nbytes < _HEADER_START:
        raise _damaged("header length", "the file ends inside it")
    (length,) = _HEADER_LENGTH.unpack_from(view, _PREAMBLE.size)
    if length > _MAX_HEADER_BYTES:
        raise _damaged("header length", f"it is over {_MAX_HEADER_BYTES} bytes")
    end = _HEADER_START + length
    if view.nbytes < end + _DIGEST_BYTES:
        raise _damaged("header", "the file ends inside it")
    # Copied once and used from the copy: the caller's buffer may change under us.
    signed = bytes(view[:end])
    if hashlib.sha256(signed).digest() != bytes(view[end : end + _DIGEST_BYTES]):
        raise _damaged("header", "its checksum does not match")
    return signed[_HEADER_START:], end + _DIGEST_BYTES


def _parse_header(header: bytes) -> tuple[str, dict[str, JsonValue], list[_Section]]:
    """Read the fields of a header whose text is intact but whose author is a stranger."""
    if _is_nested_too_deep(header):
        raise _damaged("header", f"it is nested more than {_MAX_JSON_DEPTH} deep")
    try:
        fields = json.loads(header.decode("utf-8"), parse_int=_parse_integer)
        canonical = _canonical_json(fields)  # refuses the NaN and infinity that the parser lets in
    except ValueError:
        raise _damaged("header", "it is not valid JSON") from None
    # Also refuses repeated keys: the parser keeps one of them, so the text comes out shorter.
    if canonical != header:
        raise _damaged("header", "it is not canonical JSON")
    if not isinstance(fields, dict) or fields.keys() != _HEADER_FIELDS:
        raise _damaged("header", "it has missing or unknown fields")
    kind, metadata, entries = fields["kind"], fields["metadata"], fields["arrays"]
    if not (_is_name(kind) and isinstance(metadata, dict) and isinstance(entries, list)):
        raise _damaged("header", "a field has the wrong type")
    return kind, metadata, _parse_sections(entries)


def _parse_sections(entries: list[object]) -> list[_Section]:
    """Check that the sections follow each other without gap, overlap or repeated name."""
    sections: list[_Section] = []
    offset = 0
    for entry in entries:
        section = _parse_section(entry)
        if section.offset != offset:
            raise _damaged(f"array {section.name!r}", "it does not begin where the last one ends")
        if sections and section.name <= sections[-1].name:
            raise _damaged(f"array {section.name!r}", "its name is repeated or out of order")
        sections.append(section)
        offset += _aligned(section.length)
    return sections


def _parse_section(entry: object) -> _Section:
    if not isinstance(entry, dict) or entry.keys() != set(_Section._fields):
        raise _damaged("header", "an array has missing or unknown fields")
    if not _is_name(entry["name"]):
        raise _damaged("header", "an array has no usable name")
    where = f"array {entry['name']!r}"
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in _DTYPES:
        raise _damaged(where, f"its dtype is not one of {', '.join(_DTYPES)}")
    shape, itemsize = entry["shape"], _DTYPES[entry["dtype"]].itemsize
    if not _is_shape(shape):
        raise _damaged(where, "its shape is not a short list of counts")
    if math.prod(max(n, 1) for n in shape) * itemsize > _MAX_EXTENT:
        raise _damaged(where, "its shape is too large to address")
    if not _is_count(entry["length"]) or entry["length"] != math.prod(shape) * itemsize:
        raise _damaged(where, "its length does not follow from its shape")
    if not _is_count(entry["offset"]) or not isinstance(entry["sha256"], str):
        raise _damaged(where, "its offset or checksum is malformed")
    return _Section(**entry)


def _check_file_length(n_bytes: int, data_start: int, sections: Sequence[_Section]) -> None:
    end = data_start
    if n_bytes < end:
        raise _damaged("padding of the header", "the file ends inside it")
    for section in sections:
        end += _aligned(section.length)
        if n_bytes < end:
            raise _damaged(f"array {section.name!r}", "the file ends inside it")
    if n_bytes > end:
        raise _damaged("tail", "bytes follow the last section")


def _check_padding(padding: memoryview, owner: str) -> None:
    if any(padding):
        raise _damaged(f"padding of the {owner}", "it is not zero")


def _copy_aligned(source: memoryview, *, writable: bool) -> NDArray[np.uint8]:
    """The content of a file in one piece of memory that nobody else has.

    A view would save the copy, but keep the whole file alive, be aligned only by luck, and change
    after its checksum was verified if the caller's buffer is writable or mapped from a file.
    """
    room = make_room(source.nbytes + _ALIGNMENT - 1, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    room[start : start + source.nbytes].data[:] = source
    room.flags.writeable = writable  # before slicing again, so that no view can be thawed
    return room[start : start + source.nbytes]


def _verify_section(section: _Section, content: NDArray[np.uint8]) -> NDArray[Any]:
    """The array of a section whose bytes are those that were written."""
    where = f"array {section.name!r}"
    if hashlib.sha256(content.data).hexdigest() != section.sha256:
        raise _damaged(where, "its checksum does not match")
    if section.dtype == "bool" and content.max(initial=0) > 1:
        raise _damaged(where, "it holds a byte that is neither true nor false")
    return content.view(_DTYPES[section.dtype]).reshape(section.shape)


def _store_array(name: str, array: object) -> tuple[str, NDArray[np.uint8]]:
    """Return the code of an array's type and its bytes, little-endian and in C order."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ModelFileError(f"cannot store array {name!r}: it must be a plain numpy array")
    code = "bool" if array.dtype.kind == "b" else f"{array.dtype.kind}{array.dtype.itemsize}"
    if code not in _DTYPES or array.ndim > _MAX_DIMENSIONS:
        raise ModelFileError(
            f"cannot store array {name!r}: its dtype must be one of {', '.join(_DTYPES)} and its "
            f"dimensions at most {_MAX_DIMENSIONS}; convert it first"
        )
    stored = np.asarray(array, dtype=_DTYPES[code], order="C").reshape(-1).view(np.uint8)
    if code == "bool":
        stored = (stored != 0).view(np.uint8)  # a true that came from a view may be any byte
    return code, stored


def _encode_header(
    kind: str, metadata: Mapping[str, JsonValue], sections: Sequence[_Section]
) -> bytes:
    """Return everything before the first padding: preamble, header and its checksum."""
    if not all(map(_is_text, metadata)):
        raise ModelFileError("cannot store the model: a key of the metadata is not text")
    fields = {
        "arrays": [section._asdict() for section in sections],
        "kind": kind,
        "metadata": {
            key: _plain_json(value, where=f"metadata {key!r}", depth=3)
            for key, value in metadata.items()
        },
    }
    try:
        header = _canonical_json(fields)
    except UnicodeEncodeError:
        raise ModelFileError("cannot store the model: metadata is not valid Unicode") from None
    if len(header) > _MAX_HEADER_BYTES:
        raise ModelFileError(
            f"cannot store the model: its header is over {_MAX_HEADER_BYTES} bytes; "
            "move long lists of metadata into arrays"
        )
    start = _SIGNATURE + struct.pack("<I", _SCHEMA_VERSION)
    start += struct.pack("<II", zlib.crc32(start), len(header))
    return start + header + hashlib.sha256(start + header).digest()


def _plain_json(value: object, where: str, depth: int) -> JsonValue:
    """Rebuild a value from JSON's own types, or say which metadata entry cannot be stored."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) < 10**_MAX_INTEGER_DIGITS:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if depth <= _MAX_JSON_DEPTH:
        if isinstance(value, Mapping) and all(map(_is_text, value)):
            return {key: _plain_json(item, where, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [_plain_json(item, where, depth + 1) for item in value]
    raise ModelFileError(
        f"cannot store {where}: it must be built from None, bool, text, finite floats, integers of "
        f"at most {_MAX_INTEGER_DIGITS} digits, and lists and text-keyed mappings of these, nested "
        f"at most {_MAX_JSON_DEPTH - 2} deep"
    )


def _canonical_json(value: object) -> bytes:
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def _is_nested_too_deep(text: bytes) -> bool:
    """Measure nesting before parsing, because the parser recurses on the C stack."""
    depth = 0
    for token in _JSON_STRING_OR_BRACKET.finditer(text):
        first = text[token.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > _MAX_JSON_DEPTH:
            return True
    return False


def _parse_integer(digits: str) -> int:
    if len(digits.removeprefix("-")) > _MAX_INTEGER_DIGITS:
        raise ValueError("integer with too many digits")
    return int(digits)


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0  # a JSON true is an int to isinstance


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _MAX_DIMENSIONS and all(map(_is_count, value))


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT


def _padding(n_bytes: int) -> bytes:
    return bytes(_aligned(n_bytes) - n_bytes)


def _damaged(section: str, reason: str) -> DamagedModelError:
    return DamagedModelError(f"model file is damaged in its {section}: {reason}; get a fresh copy")
