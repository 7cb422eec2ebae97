"""Which replies the requests of a protocol name."""

from collections.abc import Iterable

from fedforest.protocol.asking import Accepted, Message, Request


def replies_to(requests: Iterable[type[Request[Message]]]) -> tuple[type[Message], ...]:
    """Each once, in the order of the requests; of a party that has something to say."""
    return tuple(dict.fromkeys(r.reply for r in requests if r.reply is not Accepted))
