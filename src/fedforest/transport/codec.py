"""Messages as bytes and back: msgpack of typed structures, checked as they are decoded.

Bytes are never unpickled. All but exact messages of an expected type are refused.
"""

import struct
from functools import cache
from typing import Any, TypeVar

import msgspec

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import Message

LARGE, TOO_LARGE = 2**16, 2**32  # bytes: what msgpack counts in four bytes

OneMessage = TypeVar("OneMessage", bound=Message)

_ENCODER = msgspec.msgpack.Encoder()
_NOTHING, _ENCODED_NOTHING = memoryview(b""), b"\xc4\x00"
_LARGE_HEAD = struct.Struct(">BI")  # of bytes that are many: 0xC6 and how many


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    content = _last_content(message)
    if content is None or not LARGE <= content.nbytes < TOO_LARGE:
        return _ENCODER.encode(message)
    # the encoder would copy it several times, into memory that is fresh from the system
    encoded = _ENCODER.encode(_without_content(message))
    head = encoded.removesuffix(_ENCODED_NOTHING) + _LARGE_HEAD.pack(0xC6, content.nbytes)
    return b"".join([head, content])


def _last_content(value: Any) -> memoryview | None:
    """The bytes with which a message ends, in itself or in what it carries, if it does so."""
    while isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        value = getattr(value, fields[-1]) if fields else None
    return value if isinstance(value, memoryview) else None


def _without_content(value: Any) -> Any:
    """Copy a message without its content, the last field of its last part."""
    if not isinstance(value, msgspec.Struct):
        return _NOTHING
    last = value.__struct_fields__[-1]
    return msgspec.structs.replace(value, **{last: _without_content(getattr(value, last))})


def decode(data: bytes | memoryview, expected: tuple[type[OneMessage], ...]) -> OneMessage:
    """The message, one of the expected types; arrays in it are views of `data`."""
    try:
        message: OneMessage = _decoder(expected).decode(data)
        return message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # the reason may quote what was sent, so it stays here
        names = " or ".join(kind.__name__ for kind in expected)
        raise ProtocolError.of("message.not_valid", expected=names) from None


@cache
def _decoder(expected: tuple[type[OneMessage], ...]) -> msgspec.msgpack.Decoder[OneMessage]:
    kind = expected[0]
    for other in expected[1:]:
        kind = kind | other  # type: ignore[assignment] # a union is what the decoder wants
    return msgspec.msgpack.Decoder(kind)
