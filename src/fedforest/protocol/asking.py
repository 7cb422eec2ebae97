"""How coordinators talk: they yield an `Ask` and are sent the replies.

A coordinator is a generator without IO; a party is an object with `handle(request) -> reply`. A
driver carries the one's questions to the other.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from fedforest.errors import LocalProtocolError, ProtocolError, RemoteProtocolError

Reply = TypeVar("Reply", bound="Message")
Result = TypeVar("Result")
Taken = TypeVar("Taken")


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False):
    """Root of all requests and replies; fields travel in order, without their names.

    Every message declares in plain words what it reveals: a reply, of the party that sends it, to
    the coordinator; a request, of others, to the party that gets it. A party's ledger of what left
    it and the leakage report of a run say so, and a reply that declares nothing does not leave.
    """

    reveals: ClassVar[str] = ""


class Payload(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """Root of what messages carry: each kind of content is a type of its own."""


class Accepted(Message, frozen=True):
    """The reply of a party that has nothing to say."""

    reveals: ClassVar[str] = "nothing but that the party did what it was asked"


@dataclass(frozen=True, slots=True)
class Ask:
    """One exchange: a request for each of some parties, all of which answer with one type."""

    requests: Mapping[str, Message]
    reply: type[Message] = Accepted
    note: Mapping[str, Any] | None = None  # for progress and logs; holds no data
    may_lose: bool = False  # a lost party is left out of the replies instead of ending the run
    read: Callable[[str, Any], None] | None = None
    """Takes a party's reply before all are there, on any thread; whoever carries the question may
    leave it to the coordinator, which gets all replies in any case."""


class AsTheyCome(Generic[Taken]):
    """For `Ask.read`: what is taken from each reply when it comes, or when all are there."""

    def __init__(self, take: Callable[[str, Any], Taken]) -> None:
        self._take = take
        self._taken: dict[str, Taken] = {}  # threads only ever add to it

    def __call__(self, party: str, reply: Any) -> None:
        self._taken[party] = self._take(party, reply)

    def of(self, replies: Mapping[str, Any]) -> dict[str, Taken]:
        """Of all these replies, in their order."""
        for party, reply in replies.items():
            if party not in self._taken:
                self(party, reply)
        return {party: self._taken[party] for party in replies}


Conversation = Generator[Ask, Mapping[str, Any], Result]


class EndEarly(Exception):  # noqa: N818 - a wish of the operator, not an error
    """Thrown into a coordinator in place of replies: come to an end with what is complete.

    `replies` are those of the parties that did answer. A coordinator that has nothing complete lets
    it pass.
    """

    def __init__(self, replies: Mapping[str, Any]) -> None:
        super().__init__("the operator ends the run early")
        self.replies = replies


class Handler(Protocol):
    """The party side of a protocol."""

    def handle(self, request: Message) -> Message:
        """Answer one request."""


def check(condition: bool, broken_rule: str) -> None:
    """Refuse a message that breaks a rule of the protocol."""
    if not condition:
        raise ProtocolError(broken_rule)


def answer(handlers: Mapping[type[Message], Callable[[Any], Message]], request: Message) -> Message:
    """Have a coordinator's request handled; what is wrong with it is the coordinator's fault."""
    with blame("coordinator"):
        handler = handlers.get(type(request))
        if handler is None:
            raise ProtocolError(f"{type(request).__name__} is no request of this protocol")
        return handler(request)


class blame:  # noqa: N801 - reads as a verb in `with blame(party):`
    """What goes wrong inside is the fault of this peer."""

    __slots__ = ("_party",)

    def __init__(self, party: str) -> None:
        self._party = party

    def __enter__(self) -> None:
        """Nothing has gone wrong yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, RemoteProtocolError | LocalProtocolError):
            return  # or somebody is to blame already
        if isinstance(error, ProtocolError):
            raise RemoteProtocolError(str(error), self._party) from None
