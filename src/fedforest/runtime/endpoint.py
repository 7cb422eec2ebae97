"""A party's endpoint for transports: bytes in, bytes out."""

from collections.abc import Callable

from fedforest.protocol.asking import Handler, Message, blame
from fedforest.transport.codec import decode, encode


def make_endpoint(
    handler: Handler, accepted: tuple[type[Message], ...]
) -> Callable[[bytes | memoryview], bytes]:
    """Make a function that decodes a request, has it handled and encodes the reply."""

    def answer(data: bytes | memoryview) -> bytes:
        with blame("coordinator"):
            request = decode(data, accepted)
        return encode(handler.handle(request))

    return answer
