import base64
import hashlib
import json
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from numpy.typing import NDArray

from fedforest.errors import DamagedModelError, ModelFileError, NewerModelError
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.container import decode_model, encode_model

SIGNATURE = b"\x89FFM\r\n\x1a\n"
DTYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"]
SECRET = "patient-4711"

# Written by the first release. It must stay readable, and be written the same, for ever.
VERSION_1_FILE = base64.b64decode(
    "iUZGTQ0KGgoBAAAAo8cLa2ABAAB7ImFycmF5cyI6W3siZHR5cGUiOiJpNCIsImxlbmd0aCI6MTIsIm5hbWUiOiJs"
    "ZWZ0X2NoaWxkIiwib2Zmc2V0IjowLCJzaGEyNTYiOiI5YjVhN2FkYzRiYjg3OTU4NTc4YTY1MTc4MWQ3ZDAzYTdh"
    "OTMwOWNiOTE0NGNkYWYyNjBjYTE3YTZjOTA3NzY5Iiwic2hhcGUiOlsxLDNdfSx7ImR0eXBlIjoiZjgiLCJsZW5n"
    "dGgiOjgsIm5hbWUiOiJ2YWx1ZSIsIm9mZnNldCI6NjQsInNoYTI1NiI6IjRjZmE1YjQyY2E2NjkzMjg3NjRlNjdj"
    "ZDlhMzRiYjhmOTBiMTZlZDdjYThkODVlODQ0Mzc4M2Q3Y2NjZTE1ZWQiLCJzaGFwZSI6W119XSwia2luZCI6Imdv"
    "bGRlbiIsIm1ldGFkYXRhIjp7ImNsYXNzZXMiOlsibm8iLCJ5ZXMiXX19COAUINmaTMpV4fbGgK3ymfi7iTfKli6q"
    "rLEgSd7nj9cAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAD//////////wAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADgPwAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)


def small_model() -> bytes:
    return encode_model(
        "forest",
        {"classes": ["no", "yes"], "note": SECRET, "seed": 7},
        {
            "feature": np.array([2, -1], np.int16),
            "is_leaf": np.array([False, True]),
            "threshold": np.array([0.25, np.nan]),
        },
    )


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 64)


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def assemble(header: bytes, payload: bytes = b"", version: int = 1) -> bytes:
    """Build a file by hand, with right checksums, as a stranger could."""
    start = SIGNATURE + struct.pack("<I", version)
    start += struct.pack("<I", zlib.crc32(start))
    start += struct.pack("<I", len(header)) + header
    return padded(start + hashlib.sha256(start).digest()) + payload


def described(data: bytes = b"", **changes: object) -> dict[str, object]:
    """Describe one array as a header does, with some fields replaced."""
    entry: dict[str, object] = {
        "dtype": "u1",
        "length": len(data),
        "name": "x",
        "offset": 0,
        "sha256": hashlib.sha256(data).hexdigest(),
        "shape": [len(data)],
    }
    return entry | changes


def header_of(*entries: object, **changes: object) -> bytes:
    fields: dict[str, object] = {"arrays": list(entries), "kind": "forest", "metadata": {}}
    return canonical(fields | changes)


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_same_arrays(
    actual: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]
) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        native = expected[name].astype(expected[name].dtype.newbyteorder("="))
        np.testing.assert_array_equal(actual[name], native, strict=True)


arrays = st.one_of(
    [
        numpy_strategies.arrays(
            np.dtype("?" if code == "bool" else order + code),
            numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
        )
        for code in DTYPES
        for order in "<>"
    ]
)
LAYOUTS: list[Callable[[NDArray[Any]], NDArray[Any]]] = [
    lambda array: array,
    lambda array: array.copy(order="F"),
    lambda array: array.T,
    lambda array: array[::-2] if array.ndim else array,
]
layouts = st.sampled_from(LAYOUTS)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_./-]{0,20}", fullmatch=True)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**128), 2**128)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(names, st.dictionaries(st.text(), json_values, max_size=4), st.data())
def test_a_model_comes_back_as_it_was_stored(
    kind: str, metadata: dict[str, JsonValue], data: st.DataObject
) -> None:
    stored = {
        name: data.draw(layouts)(data.draw(arrays))
        for name in data.draw(st.lists(names, max_size=4, unique=True))
    }
    encoded = encode_model(kind, metadata, stored)
    contents = decode_model(encoded, expected_kind=kind)
    assert (contents.kind, contents.schema_version) == (kind, 1)
    assert contents.metadata == metadata
    assert_same_arrays(contents.arrays, stored)
    assert encode_model(contents.kind, contents.metadata, contents.arrays) == encoded


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 2**40), (2, 0, 3), (1,) * 32])
def test_every_dtype_is_stored_in_every_kind_of_shape(code: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, code)
    assert_same_arrays(decode_model(encode_model("k", {}, {"x": array})).arrays, {"x": array})


@pytest.mark.parametrize("code", ["bool", "u1", ">i4", "f8"])
@pytest.mark.parametrize(
    "arrange",
    [
        lambda array: array[0, ::-2],
        lambda array: array[:, 1],
        lambda array: array.T,
        lambda array: array[::2, 1:],
        lambda array: np.broadcast_to(array[:, :1], (2, 4, 6)),
    ],
    ids=["backwards", "column", "transposed", "window", "broadcast"],
)
def test_an_array_is_stored_in_c_order_whatever_its_strides(
    code: str, arrange: Callable[[NDArray[Any]], NDArray[Any]]
) -> None:
    array = arrange(np.arange(24).reshape(4, 6).astype(code))
    compact = array.copy(order="C")
    encoded = encode_model("k", {}, {"x": array})
    assert encoded == encode_model("k", {}, {"x": compact})
    assert_same_arrays(decode_model(encoded).arrays, {"x": compact})


@given(arrays, st.booleans())
def test_memory_order_and_byte_order_do_not_change_the_bytes(
    array: NDArray[Any], swap: bool
) -> None:
    other = array.copy(order="F")
    if swap:
        other = other.astype(other.dtype.newbyteorder("S"))
    assert encode_model("k", {}, {"x": other}) == encode_model("k", {}, {"x": array})


def test_the_order_in_which_entries_are_given_does_not_change_the_bytes() -> None:
    one, two = np.arange(3), np.arange(2.0)
    assert encode_model("k", {"a": 1, "b": {"c": 2, "d": 3}}, {"x": one, "y": two}) == encode_model(
        "k", {"b": {"d": 3, "c": 2}, "a": 1}, {"y": two, "x": one}
    )


def test_a_true_stored_as_another_byte_than_one_is_the_same_true() -> None:
    odd = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    plain = np.array([False, True, True, True])
    assert encode_model("k", {}, {"x": odd}) == encode_model("k", {}, {"x": plain})


def test_every_bit_of_a_float_is_kept() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000123, 1 << 63], np.uint64)
    decoded = decode_model(encode_model("k", {}, {"x": bits.view(np.float64)}))
    np.testing.assert_array_equal(decoded.arrays["x"].view(np.uint64), bits)


def test_the_bytes_are_laid_out_as_the_module_draws_them() -> None:
    first, second = struct.pack("<3H", 1, 2, 65535), struct.pack("<d", 0.5)
    entries = [
        described(first, dtype="u2", name="a", shape=[3]),
        described(second, dtype="f8", name="b", shape=[], offset=64),
    ]
    assert encode_model(
        "forest", {"classes": ["é"]}, {"b": np.array(0.5), "a": np.array([1, 2, 65535], ">u2")}
    ) == assemble(header_of(*entries, metadata={"classes": ["é"]}), padded(first) + padded(second))


def test_a_file_of_the_first_release_is_read_and_written_unchanged() -> None:
    contents = decode_model(VERSION_1_FILE, expected_kind="golden")
    assert contents.schema_version == 1
    assert contents.metadata == {"classes": ["no", "yes"]}
    expected = {"left_child": np.array([[1, -1, -1]], np.int32), "value": np.array(0.5)}
    assert_same_arrays(contents.arrays, expected)
    assert encode_model("golden", {"classes": ["no", "yes"]}, expected) == VERSION_1_FILE


def test_decoded_arrays_are_aligned_and_cannot_be_written() -> None:
    for array in decode_model(small_model()).arrays.values():
        assert array.ctypes.data % 64 == 0
        assert array.flags.aligned
        assert array.flags.c_contiguous
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True


def test_decoded_contents_cannot_be_replaced() -> None:
    contents = decode_model(small_model())
    with pytest.raises(AttributeError):
        contents.kind = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        contents.arrays["feature"] = np.zeros(2)  # type: ignore[index]
    with pytest.raises(TypeError):
        contents.metadata["seed"] = 8  # type: ignore[index]


def test_decoded_arrays_do_not_follow_later_changes_of_the_buffer() -> None:
    buffer = bytearray(small_model())
    contents = decode_model(memoryview(buffer))
    buffer.clear()  # refused by Python while anything still looks into the buffer
    assert_same_arrays(contents.arrays, decode_model(small_model()).arrays)


def test_every_flipped_bit_is_detected_and_never_quoted() -> None:
    intact = small_model()
    for position in range(len(intact)):
        for flip in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = bytearray(intact)
            damaged[position] ^= flip
            with pytest.raises(ModelFileError) as caught:
                decode_model(memoryview(damaged))
            assert not isinstance(caught.value, NewerModelError)
            assert "patient" not in str(caught.value)


def test_a_file_cut_at_any_length_is_refused() -> None:
    intact = small_model()
    for length in range(len(intact)):
        with pytest.raises(ModelFileError):
            decode_model(intact[:length])


def test_trailing_bytes_are_refused() -> None:
    for tail in (b"\0", bytes(64), small_model()):
        with pytest.raises(DamagedModelError, match="its tail: bytes follow"):
            decode_model(small_model() + tail)


def header_end(data: bytes | bytearray) -> int:
    """Where the header's own checksum ends."""
    return 20 + int(struct.unpack_from("<I", data, 16)[0]) + 32


@pytest.mark.parametrize(
    ("anchor", "distance", "section"),
    [
        ("start", 0, "signature"),
        ("start", 8, "preamble"),
        ("start", 12, "preamble"),
        ("start", 19, "header length"),
        ("start", 20, "header"),
        ("header end", -1, "header"),
        ("header end", 0, "padding of the header"),
        ("end", -192, "array 'feature'"),
        ("end", -129, "padding of the array 'feature'"),
        ("end", -128, "array 'is_leaf'"),
        ("end", -64, "array 'threshold'"),
        ("end", -1, "padding of the array 'threshold'"),
    ],
)
def test_a_damaged_file_is_refused_and_the_damaged_section_is_named(
    anchor: str, distance: int, section: str
) -> None:
    damaged = bytearray(small_model())
    anchors = {"start": 0, "header end": header_end(damaged), "end": len(damaged)}
    damaged[anchors[anchor] + distance] ^= 0x80
    with pytest.raises(DamagedModelError, match=f"in its {section}: "):
        decode_model(memoryview(damaged))


@pytest.mark.parametrize(
    ("kept", "section"),
    [
        (7, "signature"),
        (15, "preamble"),
        (19, "header length"),
        (60, "header"),
        (-200, "padding of the header"),
        (-130, "array 'feature'"),
        (-1, "array 'threshold'"),
    ],
)
def test_a_cut_file_names_the_section_where_it_ends(kept: int, section: str) -> None:
    data = small_model()
    assert header_end(data) <= len(data) - 200
    with pytest.raises(DamagedModelError, match=f"its {section}: .*(ends inside|cut short)"):
        decode_model(data[:kept])


@pytest.mark.parametrize(
    "mangle",
    [
        lambda data: data.replace(b"\r\n", b"\n"),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.decode("latin-1").encode("utf-8"),
        lambda data: data.decode("utf-8", errors="replace").encode("utf-8"),
        lambda data: bytes(byte & 0x7F for byte in data),
    ],
    ids=["crlf to lf", "lf to crlf", "latin-1 to utf-8", "as utf-8", "seven bits"],
)
def test_a_file_copied_in_text_mode_is_recognised(mangle: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DamagedModelError, match="text-mode copy"):
        decode_model(mangle(small_model()))


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04" * 99, b"\x80\x04}.", bytes(4096)])
def test_a_file_that_is_no_model_is_told_apart_from_a_damaged_one(data: bytes) -> None:
    with pytest.raises(ModelFileError, match="not a fedforest model") as caught:
        decode_model(data)
    assert not isinstance(caught.value, DamagedModelError)


def test_a_newer_file_says_which_versions_and_to_upgrade() -> None:
    message = r"version 2, .* reads up to version 1; upgrade fedforest"
    with pytest.raises(NewerModelError, match=message):
        decode_model(assemble(b"whatever version 2 may hold", version=2))


def test_a_version_that_never_was_is_damage() -> None:
    with pytest.raises(DamagedModelError, match="version 0 was never released"):
        decode_model(assemble(header_of(), version=0))


def test_another_kind_of_model_is_refused_by_name() -> None:
    assert decode_model(small_model(), expected_kind="forest").kind == "forest"
    with pytest.raises(ModelFileError, match="holds a 'forest', not a 'linear'") as caught:
        decode_model(small_model(), expected_kind="linear")
    assert not isinstance(caught.value, DamagedModelError)


def test_a_file_over_the_limit_is_refused_and_one_at_the_limit_is_read() -> None:
    data = small_model()
    decode_model(data, max_bytes=len(data))
    with pytest.raises(ModelFileError, match="raise max_bytes"):
        decode_model(data, max_bytes=len(data) - 1)


def test_a_file_made_by_hand_is_read_when_it_is_right() -> None:
    data = b"\x01\x00"
    contents = decode_model(assemble(header_of(described(data, dtype="bool")), padded(data)))
    np.testing.assert_array_equal(contents.arrays["x"], [True, False])


HOSTILE_SECTIONS: dict[str, tuple[list[object], str]] = {
    "a shape beyond memory": (
        [described(shape=[2**40], length=2**40)],
        "array 'x': the file ends inside it",
    ),
    "a shape beyond addresses": (
        [described(shape=[2**32, 2**32], length=2**64)],
        "array 'x': its shape is too large",
    ),
    "a product that wraps to the true length": (
        [described(b"", dtype="u8", shape=[2**61], length=0)],
        "array 'x': its shape is too large",
    ),
    "an empty array beyond addresses": (
        [described(shape=[0, 2**63])],
        "array 'x': its shape is too large",
    ),
    "a negative dimension": ([described(shape=[-1])], "array 'x': its shape is not"),
    "two negative dimensions": (
        [described(b"abcd", shape=[-2, -2])],
        "array 'x': its shape is not",
    ),
    "a true as dimension": ([described(b"a", shape=[True])], "array 'x': its shape is not"),
    "a float as dimension": ([described(b"a", shape=[1.0])], "array 'x': its shape is not"),
    "a shape that is a number": ([described(shape=0)], "array 'x': its shape is not"),
    "too many dimensions": ([described(b"a", shape=[1] * 33)], "array 'x': its shape is not"),
    "a length unlike the shape": (
        [described(b"ab", shape=[1])],
        "array 'x': its length does not follow",
    ),
    "a length that is a float": (
        [described(b"a", length=1.0)],
        "array 'x': its length does not follow",
    ),
    "a negative length": ([described(length=-1)], "array 'x': its length does not follow"),
    "a negative offset": ([described(b"a", offset=-64)], "array 'x': its offset or checksum"),
    "an offset past the end": ([described(b"a", offset=2**62)], "array 'x': it does not begin"),
    "an unaligned offset": ([described(b"a", offset=1)], "array 'x': it does not begin"),
    "an offset that is false": (
        [described(b"a", offset=False)],
        "array 'x': its offset or checksum",
    ),
    "overlapping sections": (
        [described(b"a"), described(b"a", name="y", offset=0)],
        "array 'y': it does not begin",
    ),
    "a gap between sections": (
        [described(b"a"), described(b"a", name="y", offset=128)],
        "array 'y': it does not begin",
    ),
    "a repeated name": (
        [described(b"a"), described(b"a", offset=64)],
        "array 'x': its name is repeated",
    ),
    "names out of order": (
        [described(b"a"), described(b"a", name="w", offset=64)],
        "array 'w': its name is repeated",
    ),
    "an object dtype": ([described(dtype="O")], "array 'x': its dtype is not"),
    "a string dtype": ([described(dtype="<U4")], "array 'x': its dtype is not"),
    "a big-endian dtype": ([described(dtype=">f8")], "array 'x': its dtype is not"),
    "a structured dtype": ([described(dtype=[["a", "u1"]])], "array 'x': its dtype is not"),
    "a checksum that is a number": ([described(sha256=1)], "array 'x': its offset or checksum"),
    "an upper-case checksum": (
        [described(b"a", sha256=hashlib.sha256(b"a").hexdigest().upper())],
        "array 'x': its checksum",
    ),
    "a name with a control character": ([described(name="x\x1b[2J")], "no usable name"),
    "a name that is a list": ([described(name=["x"])], "no usable name"),
    "an endless name": ([described(name="x" * 129)], "no usable name"),
    "an unknown array field": ([described(fortran=True)], "missing or unknown fields"),
    "a missing array field": ([{"name": "x"}], "missing or unknown fields"),
    "an array that is a list": ([["x"]], "missing or unknown fields"),
}


@pytest.mark.parametrize(("entries", "message"), HOSTILE_SECTIONS.values(), ids=HOSTILE_SECTIONS)
def test_a_hostile_array_description_is_refused_without_allocating(
    entries: list[object], message: str
) -> None:
    data = assemble(header_of(*entries), padded(b"a"))

    def decode() -> None:
        with pytest.raises(DamagedModelError, match=message):
            decode_model(data)

    assert peak_bytes(decode) < 1 << 20


HOSTILE_HEADERS = {
    "nothing": (b"", "not valid JSON"),
    "no JSON": (b"\xff\xfe{}", "not valid JSON"),
    "UTF-16": (header_of().decode().encode("utf-16-le"), "not valid JSON"),
    "a byte order mark": (b"\xef\xbb\xbf" + header_of(), "not valid JSON"),
    "cut JSON": (header_of()[:-1], "not valid JSON"),
    "two values": (header_of() * 2, "not valid JSON"),
    "not a number": (header_of(metadata={"a": float("nan")}), "not valid JSON"),
    "infinity": (header_of().replace(b"{}", b'{"a":-Infinity}'), "not valid JSON"),
    "a float over the range": (header_of().replace(b"{}", b'{"a":1e999}'), "not valid JSON"),
    "an unpaired surrogate": (header_of().replace(b"{}", b'{"a":"\\ud800"}'), "not valid JSON"),
    "a raw line break": (header_of().replace(b"forest", b"for\nest"), "not valid JSON"),
    "a long integer": (header_of(metadata={"a": 10**40}), "not valid JSON"),
    "spaces": (header_of().replace(b",", b", "), "not canonical"),
    "an escape that is not needed": (header_of().replace(b"kind", b"\\u006bind"), "not canonical"),
    "unsorted keys": (b'{"kind":"forest","arrays":[],"metadata":{}}', "not canonical"),
    "a repeated key": (header_of().replace(b"{}", b'{"a":1,"a":1}'), "not canonical"),
    "a longer float": (header_of().replace(b"{}", b'{"a":1.00}'), "not canonical"),
    "minus zero": (header_of().replace(b"{}", b'{"a":-0}'), "not canonical"),
    "an unknown field": (header_of(compression="zip"), "missing or unknown fields"),
    "a missing field": (canonical({"arrays": [], "kind": "forest"}), "missing or unknown fields"),
    "a list": (b"[]", "missing or unknown fields"),
    "a number": (b"1", "missing or unknown fields"),
    "a kind that is a number": (header_of(kind=1), "wrong type"),
    "a kind with a control character": (header_of(kind="a\x1b[2J"), "wrong type"),
    "metadata that is a list": (header_of(metadata=[]), "wrong type"),
    "arrays that are a mapping": (header_of(arrays={}), "wrong type"),
}


@pytest.mark.parametrize(("header", "message"), HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS)
def test_a_hostile_header_is_refused(header: bytes, message: str) -> None:
    with pytest.raises(DamagedModelError, match=f"its header: .*{message}"):
        decode_model(assemble(header))


LIMIT = 4 << 20
EXPENSIVE_HEADERS = {
    "deep lists": (b"[" * LIMIT, "nested more than"),
    "deep mappings": (b'{"a":' * (LIMIT // 5), "nested more than"),
    "depth behind strings": (b'{"[]\\"}":' * 40 + b"1" + b"}" * 40, "nested more than"),
    "an open string of escaped quotes": (b'"' + b'\\"' * (LIMIT // 2 - 1), "not valid JSON"),
    "brackets only": (b"[" + b"[]," * (LIMIT // 3 - 2) + b"[]]", "missing or unknown"),
    "digits only": (b"1" * LIMIT, "not valid JSON"),
    "a float of digits": (b"1." + b"1" * (LIMIT - 2), "not canonical"),
}


@pytest.mark.parametrize(("header", "message"), EXPENSIVE_HEADERS.values(), ids=EXPENSIVE_HEADERS)
def test_a_header_made_to_be_expensive_is_refused_in_linear_time(
    header: bytes, message: str
) -> None:
    data = assemble(header)
    start = time.process_time()
    with pytest.raises(DamagedModelError, match=f"its header: .*{message}"):
        decode_model(data)
    assert (
        time.process_time() - start < 10
    )  # linear work takes up to 3 s; quadratic work takes minutes


@pytest.mark.parametrize("length", [LIMIT + 1, 2**31, 2**32 - 1])
def test_an_absurd_header_length_is_refused(length: int) -> None:
    data = bytearray(assemble(header_of(), bytes(LIMIT + 4096)))
    data[16:20] = struct.pack("<I", length)
    with pytest.raises(DamagedModelError, match="header length: it is over"):
        decode_model(memoryview(data))


def test_brackets_inside_text_are_not_nesting() -> None:
    metadata: dict[str, JsonValue] = {"[" * 99: '{"' * 99, "\\": "[\\" * 99}
    assert decode_model(encode_model("k", metadata, {})).metadata == metadata


def test_a_bool_section_holding_another_byte_is_refused() -> None:
    data = b"\x00\x02"
    with pytest.raises(DamagedModelError, match=r"array 'x': .*neither true nor false"):
        decode_model(assemble(header_of(described(data, dtype="bool")), padded(data)))


def nested(depth: int) -> JsonValue:
    value: JsonValue = 0
    for _ in range(depth):
        value = [value]
    return value


def test_metadata_may_be_nested_up_to_the_limit() -> None:
    metadata = {"deep": nested(30), "seed": 10**40 - 1, "shift": 1 - 10**40}
    assert decode_model(encode_model("k", metadata, {})).metadata == metadata


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**40,
        -(10**5000),
        b"bytes",
        {1, 2},
        {1: "integer key"},
        np.int64(1),
        np.zeros(2),
        nested(31),
        CYCLE,
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_metadata_that_is_not_json_is_refused_before_writing(value: Any) -> None:
    with pytest.raises(ModelFileError, match="cannot store metadata 'setting'"):
        encode_model("k", {"setting": value}, {})


@pytest.mark.parametrize(
    "metadata", [{1: "a"}, {"a": "\ud800"}, {"\ud800": 1}, {"a": "long" * (1 << 20)}]
)
def test_metadata_that_no_header_can_hold_is_refused_before_writing(metadata: Any) -> None:
    with pytest.raises(ModelFileError, match=r"cannot store the model: .*(metadata|header)"):
        encode_model("k", metadata, {})


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.zeros(2, complex),
        np.zeros(2, np.float16),
        np.zeros(2, np.longdouble),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, [("a", "i4")]),
        np.zeros((1,) * 33),
        np.ma.masked_array([1, 2], [False, True]),
        [1, 2],
    ],
    ids=lambda array: f"{type(array).__name__} {getattr(array, 'dtype', '')}",
)
def test_an_array_that_cannot_be_stored_is_refused_by_name(array: Any) -> None:
    with pytest.raises(ModelFileError, match="cannot store array 'x'"):
        encode_model("k", {}, {"x": array})


@pytest.mark.parametrize("name", ["", "é", "a b", "a\n", "1a", "x" * 129, 1, None])
def test_a_name_unfit_for_an_error_message_is_refused(name: Any) -> None:
    for kind, arrays in ((name, {}), ("k", {name: np.zeros(1)})):
        with pytest.raises(ModelFileError, match="kind and array names must match"):
            encode_model(kind, {}, arrays)


HOSTILE_VALUES: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    1,
    63,
    64,
    2**63,
    10**39,
    0.5,
    "",
    "x",
    "O",
    "f8",
    [],
    {},
    [0],
)


def with_raw_damage(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat or insert bytes somewhere."""
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randrange(1, 80))
    noise = rng.randbytes(rng.randrange(1, 9))
    middle = rng.choice([b"", noise, data[start:end] * 2, bytes(end - start), data[start:end]])
    return data[:start] + middle + data[end if rng.random() < 0.9 else start :]


def resealed(data: bytes) -> bytes:
    """Make the checksums of the preamble and the header right again, where they still exist."""
    if len(data) < 20:
        return data
    sealed = bytearray(data)
    sealed[12:16] = struct.pack("<I", zlib.crc32(sealed[:12]))
    end = 20 + int(struct.unpack_from("<I", sealed, 16)[0])
    if end + 32 <= len(sealed):
        sealed[end : end + 32] = hashlib.sha256(sealed[:end]).digest()
    return bytes(sealed)


def with_hostile_field(data: bytes, rng: random.Random) -> bytes:
    """Replace, remove or add one field of the header and seal the file again."""
    end = header_end(data)
    fields = json.loads(data[20 : end - 32])
    target = rng.choice([fields, fields["metadata"], *fields["arrays"], *fields["arrays"]])
    key = rng.choice([*target, "extra"])
    if rng.random() < 0.2:
        target.pop(key, None)
    else:
        target[key] = rng.choice(HOSTILE_VALUES)
    return assemble(canonical(fields), data[len(padded(data[:end])) :])


def test_a_mutated_file_is_refused_by_name_or_is_the_one_encoding_of_what_it_holds() -> None:
    rng = random.Random(20240607)
    outcomes: dict[str, int] = {}
    for _ in range(2000):
        mutant = small_model()
        for _ in range(rng.randrange(1, 4)):
            mutant = with_raw_damage(mutant, rng)
        if rng.random() < 0.4:
            mutant = with_hostile_field(small_model(), rng)
        elif rng.random() < 0.5:
            mutant = resealed(mutant)
        try:
            contents = decode_model(mutant)
        except ModelFileError as error:
            outcome = str(error)
        else:
            outcome = "read"
            assert encode_model(contents.kind, contents.metadata, contents.arrays) == mutant
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    # The mutants must get past the outer checks, or this test would show little.
    assert len(outcomes) > 20
    assert outcomes["read"] > 10
