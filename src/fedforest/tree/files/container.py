"""A versioned container for models: bytes in, bytes out, safe to load from an unknown author.

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
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError, NewerModelError
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.header import (
    ALIGNMENT,
    DTYPES,
    MAX_DIMENSIONS,
    MAX_HEADER_BYTES,
    NAME,
    FileSection,
    aligned,
    damaged,
    is_name,
    read_header,
    write_header,
)
from fedforest.tree.workers import ALONE, Workers

_SCHEMA_VERSION = 1
_SIGNATURE = b"\x89FFM\r\n\x1a\n"
_PREAMBLE = struct.Struct("<8sII")
_HEADER_LENGTH = struct.Struct("<I")
_HEADER_START = _PREAMBLE.size + _HEADER_LENGTH.size
_DIGEST_BYTES = 32
_DEFAULT_MAX_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, eq=False)
class ModelContents:
    """The contents of a model file; arrays are aligned to 64 bytes, and read-only by default."""

    kind: str
    schema_version: int
    metadata: Mapping[str, JsonValue]
    arrays: Mapping[str, NDArray[Any]]


_Copy: TypeAlias = Callable[[memoryview], NDArray[np.uint8]]  # copies the bytes of a section


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
    """Return the encoding in consecutive pieces; the large ones are the arrays, not copied."""
    if not is_name(kind) or not all(is_name(name) for name in arrays):
        raise ModelFileError(
            f"cannot store the model: its kind and array names must match {NAME.pattern}"
        )
    stored = {name: _store_array(name, arrays[name]) for name in sorted(arrays)}
    sha256: dict[str, str] = {}

    def hash_array(name: str) -> None:
        sha256[name] = hashlib.sha256(stored[name][1].data).hexdigest()

    workers.run(hash_array, sorted(stored, key=lambda name: -stored[name][1].nbytes))
    sections: list[FileSection] = []
    payload: list[memoryview | bytes] = []
    offset = 0
    for name, (code, content) in stored.items():
        shape = list(arrays[name].shape)
        sections.append(FileSection(code, content.nbytes, name, offset, sha256[name], shape))
        payload += [content.data, _padding(content.nbytes)]
        offset += aligned(content.nbytes)
    header = _sign_header(write_header(kind, metadata, sections))
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
    if expected_kind is not None:
        check_kind(contents.kind, expected_kind)
    return contents


def _view(data: bytes | memoryview, max_bytes: int) -> memoryview:
    view = memoryview(data).cast("B")
    if view.nbytes > max_bytes:
        raise ModelFileError(
            f"model file of {view.nbytes} bytes is over the limit of {max_bytes}; "
            "raise max_bytes if you trust its source"
        )
    return view


def check_kind(kind: str, expected_kind: str) -> None:
    """Refuse a file of another kind."""
    if kind != expected_kind:
        raise ModelFileError(
            f"model file holds a {kind!r}, not a {expected_kind!r}; choose another file"
        )


def _read_version(view: memoryview) -> int:
    start = bytes(view[: _PREAMBLE.size])
    if not start.startswith(_SIGNATURE):
        if b"FFM" in start[: len(_SIGNATURE)]:
            raise damaged("signature", "it is cut short, or a text-mode copy changed it")
        raise ModelFileError("not a fedforest model: the file does not begin with the signature")
    if len(start) < _PREAMBLE.size:
        raise damaged("preamble", "the file ends inside it")
    _, version, checksum = _PREAMBLE.unpack(start)
    if checksum != zlib.crc32(start[:-4]):
        raise damaged("preamble", "its checksum does not match")
    if version > _SCHEMA_VERSION:
        raise NewerModelError(
            f"model file has schema version {version}, this release of fedforest reads up to "
            f"version {_SCHEMA_VERSION}; upgrade fedforest to load it"
        )
    if version not in _READERS:
        raise damaged("preamble", f"schema version {version} was never released")
    return int(version)


def _read_version_1(view: memoryview, copy: _Copy) -> ModelContents:
    header_bytes, end_of_header = _verified_header(view)
    kind, metadata, sections = read_header(header_bytes)
    data_start = aligned(end_of_header)
    _check_file_length(view.nbytes, data_start, sections)
    _check_padding(view[end_of_header:data_start], "header")
    content, arrays = copy(view[data_start:]), {}
    for section in sections:
        end = section.offset + section.length
        arrays[section.name] = _verify_section(section, content[section.offset : end])
        padding = content[end : section.offset + aligned(section.length)]
        _check_padding(padding.data, f"array {section.name!r}")
    return ModelContents(kind, 1, MappingProxyType(metadata), MappingProxyType(arrays))


# A new schema version adds its reader here; the old ones stay as they are.
_READERS: Mapping[int, Callable[[memoryview, _Copy], ModelContents]] = {1: _read_version_1}


def _verified_header(view: memoryview) -> tuple[bytes, int]:
    """Return the header's JSON and where its checksum ends."""
    if view.nbytes < _HEADER_START:
        raise damaged("header length", "the file ends inside it")
    (length,) = _HEADER_LENGTH.unpack_from(view, _PREAMBLE.size)
    if length > MAX_HEADER_BYTES:
        raise damaged("header length", f"it is over {MAX_HEADER_BYTES} bytes")
    end = _HEADER_START + length
    if view.nbytes < end + _DIGEST_BYTES:
        raise damaged("header", "the file ends inside it")
    # Copied once and used from the copy: the caller's buffer may change under us.
    signed = bytes(view[:end])
    if hashlib.sha256(signed).digest() != bytes(view[end : end + _DIGEST_BYTES]):
        raise damaged("header", "its checksum does not match")
    return signed[_HEADER_START:], end + _DIGEST_BYTES


def _check_file_length(n_bytes: int, data_start: int, sections: Sequence[FileSection]) -> None:
    end = data_start
    if n_bytes < end:
        raise damaged("padding of the header", "the file ends inside it")
    for section in sections:
        end += aligned(section.length)
        if n_bytes < end:
            raise damaged(f"array {section.name!r}", "the file ends inside it")
    if n_bytes > end:
        raise damaged("tail", "bytes follow the last section")


def _check_padding(padding: memoryview, owner: str) -> None:
    if any(padding):
        raise damaged(f"padding of the {owner}", "it is not zero")


def _copy_aligned(source: memoryview, *, writable: bool) -> NDArray[np.uint8]:
    """Copy the content of a section into aligned memory that nothing else refers to.

    A view would save the copy, but keep the whole file alive, be aligned only by luck, and change
    after its checksum was verified if the caller's buffer is writable or mapped from a file.
    """
    room = np.empty(source.nbytes + ALIGNMENT - 1, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    room[start : start + source.nbytes].data[:] = source
    room.flags.writeable = writable  # before slicing again, so that no view can be thawed
    return room[start : start + source.nbytes]


def _verify_section(section: FileSection, content: NDArray[np.uint8]) -> NDArray[Any]:
    """Verify the checksum of a section and return its array."""
    where = f"array {section.name!r}"
    if hashlib.sha256(content.data).hexdigest() != section.sha256:
        raise damaged(where, "its checksum does not match")
    if section.dtype == "bool" and content.max(initial=0) > 1:
        raise damaged(where, "it holds a byte that is neither true nor false")
    return content.view(DTYPES[section.dtype]).reshape(section.shape)


def _store_array(name: str, array: object) -> tuple[str, NDArray[np.uint8]]:
    """Return the code of an array's type and its bytes, little-endian and in C order."""
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ModelFileError(f"cannot store array {name!r}: it must be a plain numpy array")
    code = "bool" if array.dtype.kind == "b" else f"{array.dtype.kind}{array.dtype.itemsize}"
    if code not in DTYPES or array.ndim > MAX_DIMENSIONS:
        raise ModelFileError(
            f"cannot store array {name!r}: its dtype must be one of {', '.join(DTYPES)} and its "
            f"dimensions at most {MAX_DIMENSIONS}; convert it first"
        )
    stored = np.asarray(array, dtype=DTYPES[code], order="C").reshape(-1).view(np.uint8)
    if code == "bool":
        stored = (stored != 0).view(np.uint8)  # a true that came from a view may be any byte
    return code, stored


def _sign_header(header: bytes) -> bytes:
    """Return everything before the first padding: preamble, header and its checksum."""
    start = _SIGNATURE + struct.pack("<I", _SCHEMA_VERSION)
    start += struct.pack("<II", zlib.crc32(start), len(header))
    return start + header + hashlib.sha256(start + header).digest()


def _padding(n_bytes: int) -> bytes:
    return bytes(aligned(n_bytes) - n_bytes)
