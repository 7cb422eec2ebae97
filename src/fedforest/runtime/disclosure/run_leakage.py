"""The leakage report of a run in a federation, from its messages and figures.

Its sentences are those that message types declare, its figures those of the run's exchange log. The
reports of the protocols (`leakage.py`, `horizontal_leakage.py`, `linear_leakage.py`) add the
conclusions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fedforest.protocol.aggregation import messages as aggregation
from fedforest.protocol.alignment import messages as alignment
from fedforest.protocol.asking import Message, Request
from fedforest.protocol.horizontal import messages as horizontal
from fedforest.protocol.linear import messages as linear
from fedforest.protocol.scoring import messages as scoring
from fedforest.protocol.vertical import messages as vertical
from fedforest.protocol.vertical.encrypted import messages as encrypted
from fedforest.protocol.vertical.prediction import messages as prediction
from fedforest.runtime.disclosure.known_attacks import Attack, attacks_on
from fedforest.runtime.disclosure.leakage import LeakageReport
from fedforest.runtime.driver import Exchange

COORDINATOR, USER = "the coordinator", "the user"
# every request of a protocol by the name that exchange logs have of it; its type names its reply
_PROTOCOLS = (vertical, encrypted, prediction, horizontal, linear, aggregation, alignment, scoring)
REQUESTS: dict[str, type[Request[Message]]] = {
    request.__name__: request for protocol in _PROTOCOLS for request in protocol.REQUESTS
}
_UNDECLARED = "not declared here; read the protocol that it belongs to"
_UNKNOWN = {"label_epsilon_spent": "not limited"}

Figures = dict[str, int | float | None]


class Conclusions(NamedTuple):
    """The facts that follow from all messages of a run together."""

    figures: Figures
    follows: LeakageReport
    facts: frozenset[str] | None = None  # what known attacks need beyond messages


@dataclass(slots=True)
class Learning:
    """The facts that one role learned from all messages of one kind."""

    who: str
    source: str  # whom or what it is about: a party, or others
    message: str
    reveals: str
    n_messages: int = 0
    n_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "who": self.who,
            "from": self.source,
            "message": self.message,
            "reveals": self.reveals,
            "count": self.n_messages,
            "bytes": self.n_bytes,
        }


@dataclass(frozen=True, slots=True)
class RunLeakage:
    """The leakage report of one run; `to_text` is for people, `to_json` for programs."""

    protocol: str
    learned: tuple[Learning, ...]
    figures: Figures
    follows: LeakageReport
    attacks: tuple[Attack, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "figures": self.figures,
            "learned": [learning.to_json() for learning in self.learned],
            "follows": [{"who": entry.who, "what": entry.what} for entry in self.follows],
            "attacks": [attack.to_json() for attack in self.attacks],
        }

    def to_text(self) -> str:
        return "\n".join([*self._figures(), "", *self._messages(), "", *self._conclusions()])

    def _figures(self) -> Iterator[str]:
        yield f"A {self.protocol} run."
        for name, value in self.figures.items():
            shown = _UNKNOWN.get(name, "not known") if value is None else f"{value:,.6g}"
            yield f"  {name.replace('_', ' ')}: {shown}"

    def _messages(self) -> Iterator[str]:
        who = ""
        for learning in self.learned:
            if learning.who != who:
                who = learning.who
                yield f"What messages told {who}:"
            yield (
                f"  {learning.message} from {learning.source} x {learning.n_messages}, "
                f"{learning.n_bytes:,} bytes: {learning.reveals}"
            )

    def _conclusions(self) -> Iterator[str]:
        yield "What follows from it:"
        yield from (f"  {line}" for line in str(self.follows).splitlines())
        if self.attacks:
            yield ""
            yield "Known attacks that have something to work with:"
            yield from (f"  - {attack.to_text()}" for attack in self.attacks)


def report_run(
    protocol: str,
    told: tuple[type[Any], str],
    log: Sequence[Exchange],
    conclusions: Conclusions,
) -> RunLeakage:
    """The report of a run; `told` is the result that its user got, and what it reveals."""
    kind, user_learns = told
    learned = [*_collect(log), Learning(USER, COORDINATOR, kind.__name__, user_learns, 1)]
    replies = {learning.message for learning in learned if learning.who == COORDINATOR}
    figures, follows, facts = conclusions
    attacks = tuple(attacks_on(replies, facts))
    return RunLeakage(protocol, tuple(learned), figures, follows, attacks)


def count_traffic(log: Sequence[Exchange]) -> Figures:
    """Exchanges of a run and their bytes."""
    return {"exchanges": len(log), "bytes": sum(exchange.n_bytes for exchange in log)}


def _collect(log: Iterable[Exchange]) -> list[Learning]:
    """By role and kind of message, the coordinator first."""
    found: dict[tuple[str, str, str], Learning] = {}

    def add(who: str, source: str, message: type[Message] | None, n_bytes: int) -> None:
        name = message.__name__ if message else exchange.request
        key = (who, source, name)
        reveals = message.reveals if message else _UNDECLARED
        learning = found.setdefault(key, Learning(*key, reveals))
        learning.n_messages += 1
        learning.n_bytes += n_bytes

    for exchange in log:
        request = REQUESTS.get(exchange.request)
        reply = request.reply if request else None
        for party, n_bytes in exchange.bytes_from.items():
            add(COORDINATOR, party, reply, n_bytes)
        for party, n_bytes in exchange.bytes_to.items():
            add(party, "the coordinator, of others", request, n_bytes)
    return sorted(found.values(), key=lambda learning: (learning.who != COORDINATOR, learning.who))
