"""Messages as bytes and back: msgpack of typed structures, checked as they are decoded.

Nothing is ever unpickled. What is not exactly a message of an expected type is refused.
"""

from functools import cache

import msgspec

from fedforest.errors import ProtocolError
from fedforest.protocol.asking import Message

_ENCODER = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    return _ENCODER.encode(message)


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
