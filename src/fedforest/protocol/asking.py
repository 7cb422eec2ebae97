"""The conversation interface: coordinators `ask` parties requests and get the replies.

A coordinator is a generator without IO; a party is an object with `handle(request) -> reply`. A
driver carries requests and replies between them. A request names its reply in its type, so that a
type checker knows what `ask` returns and the driver knows what a party may answer.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_args

import msgspec

from fedforest.errors import LocalProtocolError, ProtocolError, RemoteProtocolError

Reply = TypeVar("Reply", bound="Message")
Reply_co = TypeVar("Reply_co", bound="Message", covariant=True)
Result = TypeVar("Result")
Taken = TypeVar("Taken")


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False):
    """Root of all requests and replies; fields travel in order, without their names.

    Every message declares in plain words what it reveals: a reply, about its sender, to the
    coordinator; a request, about other parties, to its receiver. A party's egress ledger and the
    leakage report of a run show this text, and a reply without it does not leave the party.
    """

    reveals: ClassVar[str] = ""


class Request(Message, Generic[Reply_co], frozen=True):
    """Root of all requests: `class FindSplits(Request[SplitsFound], frozen=True)`."""

    reply: ClassVar[type[Message]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        named = get_args(cls.__orig_bases__[0])  # type: ignore[attr-defined] # of generic bases
        if not named:
            raise TypeError(f"{cls.__name__} names no reply: derive it from Request[<its reply>]")
        if not isinstance(named[0], TypeVar):  # a TypeVar marks a generic base of requests
            cls.reply = named[0]


class Payload(msgspec.Struct, frozen=True, array_like=True, eq=False):
    """Root of the contents of messages: each kind of content is a separate type."""


class Accepted(Message, frozen=True):
    """The reply of a party that returns no data."""

    reveals: ClassVar[str] = "nothing but that the party did what it was asked"


@dataclass(frozen=True, slots=True)
class Ask:
    """One exchange: a request for each of some parties; a coordinator creates it with `ask`."""

    requests: Mapping[str, Request[Message]]
    note: Mapping[str, Any] | None = None  # for progress and logs; holds no data
    may_lose: bool = False  # a lost party is left out of the replies instead of ending the run
    read: Callable[[str, Any], None] | None = None
    """Reads a party's reply before all have arrived, on any thread. A driver may skip it: the
    coordinator gets all replies in any case. Worth (`benchmarks/ablations.py`): 1 to 5 % of a
    training's time."""
    is_ahead: bool = False
    """The coordinator goes on without the replies and takes them later, with `COLLECT`."""
    collects: bool = False  # no new question: wait for the replies to the oldest one asked ahead


COLLECT = Ask({}, collects=True)


class AsTheyCome(Generic[Taken]):
    """For `Ask.read`: reads each reply on arrival, or later in `of`."""

    def __init__(self, take: Callable[[str, Any], Taken]) -> None:
        self._take = take
        self._taken: dict[str, Taken] = {}  # threads only add to it

    def __call__(self, party: str, reply: Any) -> None:
        self._taken[party] = self._take(party, reply)

    def of(self, replies: Mapping[str, Any]) -> dict[str, Taken]:
        """Return the result for each of these replies, in their order."""
        for party, reply in replies.items():
            if party not in self._taken:
                self(party, reply)
        return {party: self._taken[party] for party in replies}


Conversation = Generator[Ask, Mapping[str, Any], Result]


def ask(
    requests: Mapping[str, Request[Reply]],
    note: Mapping[str, Any] | None = None,
    *,
    may_lose: bool = False,
    read: Callable[[str, Reply], None] | None = None,
) -> Conversation[Mapping[str, Reply]]:
    """Ask parties at the same time; `yield from ask(...)` returns the replies by party.

    See `Ask` for the options.
    """
    return (yield Ask(requests, note, may_lose, read))


class EndEarly(Exception):  # noqa: N818 - a wish of the operator, not an error
    """Thrown into a coordinator in place of replies: finish with the complete results so far.

    `replies` are those of the parties that did answer. A coordinator without complete results does
    not catch it.
    """

    def __init__(self, replies: Mapping[str, Any]) -> None:
        super().__init__("the operator ends the run early")
        self.replies = replies


class Handler(Protocol):
    """The party side of a protocol."""

    def handle(self, request: Message) -> Message:
        """Answer one request."""


def check(condition: bool, broken_rule: str, **numbers: Any) -> None:
    """Refuse a message that breaks a protocol rule; `{name}` in the rule takes a number."""
    if not condition:
        raise ProtocolError.stating(broken_rule, **numbers)


def answer(handlers: Mapping[type[Message], Callable[[Any], Message]], request: Message) -> Message:
    """Handle a coordinator's request; blame the coordinator for protocol errors."""
    with blame("coordinator"):
        handler = handlers.get(type(request))
        if handler is None:
            raise ProtocolError.of("message.unknown", expected=type(request).__name__)
        return handler(request)


class blame:  # noqa: N801 - reads as a verb in `with blame(party):`
    """Attribute protocol errors raised inside the block to this peer."""

    __slots__ = ("_party",)

    def __init__(self, party: str) -> None:
        self._party = party

    def __enter__(self) -> None:
        """Enter the block without any preparation."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, RemoteProtocolError | LocalProtocolError):
            return  # no error, or one that is attributed already
        if isinstance(error, ProtocolError):
            raise _put_blame(error, self._party) from None


def _put_blame(error: ProtocolError, party: str) -> RemoteProtocolError:
    if error.code:
        return RemoteProtocolError.of(error.code, party=party, **error.fields)
    return RemoteProtocolError(str(error), party)
