"""Messages as bytes and back: msgpack of typed structures, checked as they are decoded.

Nothing is ever unpickled. What is not exactly a message of an expected type is refused.
"""

import struct
from functools import cache

import msgspec

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import Message

LARGE, TOO_LARGE = 2**20, 2**32  # bytes

_ENCODER = msgspec.msgpack.Encoder()
_NOTHING, _ENCODED_NOTHING = memoryview(b""), b"\xc4\x00"
_LARGE_HEAD = struct.Struct(">BI")  # of bytes that are many: 0xC6 and how many


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    last = message.__struct_fields__[-1] if message.__struct_fields__ else ""
    content = getattr(message, last, None)
    if not isinstance(content, memoryview) or not LARGE <= content.nbytes < TOO_LARGE:
        return _ENCODER.encode(message)
    # a model: the encoder would take half as much memory again, all of it fresh from the system
    encoded = _ENCODER.encode(msgspec.structs.replace(message, **{last: _NOTHING}))
    head = encoded.removesuffix(_ENCODED_NOTHING) + _LARGE_HEAD.pack(0xC6, content.nbytes)
    return b"".join([head, content])


def decode(data: bytes | memoryview, expected: tuple[type[Message], ...]) -> Message:
    """The message, one of the expected types; arrays in it are views of `data`."""
    try:
        return _decoder(expected).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # the reason may quote what was sent, so it stays here
        names = " or ".join(kind.__name__ for kind in expected)
        raise ProtocolError(f"a message is not a valid {names}") from None


@cache
def _decoder(expected: tuple[type[Message], ...]) -> msgspec.msgpack.Decoder[Message]:
    kind = expected[0]
    for other in expected[1:]:
        kind = kind | other  # type: ignore[assignment] # a union is what the decoder wants
    return msgspec.msgpack.Decoder(kind)
