"""The contract of a run: which requests a party answers, how many, how large and in which order.

A protocol's contract is a table of clauses beside its messages. The limits of a clause follow from
the numbers that the coordinator declared when the party agreed to the run. The gate stands in front
of the party's handler and counts along, in one process as over a network. A request outside of the
contract is refused by name and changes nothing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fedforest.errors import LocalProtocolError, ProtocolError
from fedforest.protocol.asking import Handler, Message, blame
from fedforest.protocol.label_door import OWNER, Accountant, tells_labels

Declared = TypeVar("Declared")  # the numbers that the coordinator declared for a run
UNLIMITED = 2**62  # for `Clause.most`: a number of requests that no run reaches

BEGINNING = Message  # in `Clause.follows`: the request may be the first of its run


def once(_: Any) -> int:
    """For `Clause.most` and `Clause.amount`: one request."""
    return 1


def unlimited(_: Any) -> int:
    """For `Clause.most`: the order of requests, or the party's own count, is the limit."""
    return UNLIMITED


@dataclass(frozen=True, slots=True)
class Clause(Generic[Declared]):
    """One row of a contract: a request, and the limits within which a party answers it."""

    request: type[Message]
    follows: tuple[type[Message], ...]  # the requests that may come directly before it
    most: Callable[[Declared], int]  # how much of it a run may ask in all
    limit: str  # the same in words, for documents: "once", "the trees declared"
    amount: Callable[[Any], int] = once  # how much one request asks
    # raises if it contradicts the declaration; documents show its docstring
    fits: Callable[[Declared, Any], None] | None = None
    # of a request that belongs to one of several conversations side by side; None: to all of them
    slot: Callable[[Any], int] | None = None


class Gate(Generic[Declared]):
    """A handler that passes on the requests of a contract and refuses all others."""

    def __init__(
        self,
        clauses: Sequence[Clause[Declared]],
        declared: Declared,
        handler: Handler,
        accountant: Accountant = OWNER,
    ) -> None:
        self._clauses = {clause.request: clause for clause in clauses}
        self._declared = declared
        self._handler = handler
        self._accountant = accountant
        self._last: type[Message] = BEGINNING  # that belonged to all conversations
        self._last_in_slot: dict[int, type[Message]] = {}  # since then
        self._asked: Counter[type[Message]] = Counter()

    def handle(self, request: Message) -> Message:
        """Answer one request of the contract; a refused one counts for nothing."""
        kind = type(request)
        with blame("coordinator"):
            asked = self._admit(kind, request)
        reply = self._handler.handle(request)
        if tells_labels(reply) and not self._accountant.has_approved:
            raise LocalProtocolError(
                f"{type(reply).__name__} would tell of labels that the party's accountant has not "
                "approved; please report this error"
            )
        self._asked[kind] = asked
        slot = self._clauses[kind].slot
        if slot is None:
            self._last, self._last_in_slot = kind, {}
        else:
            self._last_in_slot[slot(request)] = kind
        return reply

    def _admit(self, kind: type[Message], request: Message) -> int:
        """Return how much of this request the run will have asked in all, or refuse it."""
        clause = self._clauses.get(kind)
        if clause is None:
            raise ProtocolError.of("message.unknown", expected=kind.__name__)
        for last in self._requests_before(clause, request):
            if last not in clause.follows:
                before = "the beginning" if last is BEGINNING else last.__name__
                raise ProtocolError.of("contract.turn", request=kind.__name__, before=before)
        asked = self._asked[kind] + clause.amount(request)
        most = clause.most(self._declared)
        if asked > most:
            raise ProtocolError.of("contract.limit", request=kind.__name__, asked=asked, limit=most)
        if clause.fits is not None:
            clause.fits(self._declared, request)
        return asked

    def _requests_before(self, clause: Clause[Declared], request: Message) -> list[type[Message]]:
        """Return the last request of the same conversation, or of all that are side by side."""
        if clause.slot is not None:
            return [self._last_in_slot.get(clause.slot(request), self._last)]
        return list(self._last_in_slot.values()) or [self._last]


def list_clauses(clauses: Sequence[Clause[Any]]) -> str:
    """Return a contract as a Markdown table, as the documents show it."""
    names = "request", "comes after", "how much in one run", "must be as declared"
    rows = [f"| {' | '.join(names)} |", "|---|---|---|---|"]
    for clause in clauses:
        before = [
            "the beginning" if kind is BEGINNING else f"`{kind.__name__}`"
            for kind in clause.follows
        ]
        name, agrees = clause.request.__name__, _tell_agreement(clause)
        rows.append(f"| `{name}` | {', '.join(before)} | {clause.limit} | {agrees} |")
    return "\n".join(rows)


def _tell_agreement(clause: Clause[Any]) -> str:
    """Return what a request must have in common with the declaration, in the words of its check."""
    if clause.fits is None:
        return "–"
    assert clause.fits.__doc__ is not None
    return clause.fits.__doc__.strip().removeprefix("Require ").removesuffix(".")
