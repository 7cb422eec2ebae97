"""A party as a transport sees it: bytes in, bytes out."""

from collections.abc import Callable

from fedforest.protocol.asking import Handler, Message, blame
from fedforest.transport.codec import decode, encode


def make_endpoint(
    handler: Handler, accepted: tuple[type[Message], ...]
) -> Callable[[bytes | memoryview], bytes]:
    """Decode a request of an accepted type, have it handled, encode the reply."""

    def answer(data: bytes | memoryview) -> bytes:
        with blame("coordinator"):
            request = decode(data, accepted)
        return encode(handler.handle(request))

    return answer
