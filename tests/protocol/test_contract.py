"""The gate of a contract: what passes, what is refused, and what a refusal leaves behind."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedforest.errors import ProtocolError, RemoteProtocolError
from fedforest.protocol.alignment import contract as alignment
from fedforest.protocol.asking import Accepted, Message, Request, check
from fedforest.protocol.contract import BEGINNING, Clause, Gate, list_clauses, once
from fedforest.protocol.horizontal import contract as horizontal
from fedforest.protocol.linear import contract as linear
from fedforest.protocol.scoring import contract as scoring
from fedforest.protocol.vertical import contract as vertical
from fedforest.protocol.vertical.encrypted import contract as encrypted

DOCUMENTS = Path(__file__).parents[2] / "docs"


class Open(Request[Accepted], frozen=True):
    reveals: ClassVar[str] = "nothing of others"


class Plant(Request[Accepted], frozen=True):
    reveals: ClassVar[str] = "nothing of others"

    n_trees: int
    depth: int = 1


class Other(Request[Accepted], frozen=True):
    reveals: ClassVar[str] = "nothing of others"


class Declared:
    """Three trees of depth one."""

    n_trees, depth = 3, 1


def _has_depth(declared: type[Declared], request: Plant) -> None:
    """Require the depth."""
    check(request.depth == declared.depth, "trees are of another depth than declared")


CONTRACT: tuple[Clause[type[Declared]], ...] = (
    Clause(Open, (BEGINNING,), once, "once"),
    Clause(
        Plant,
        (Open, Plant),
        lambda declared: declared.n_trees,
        "the trees declared",
        lambda request: request.n_trees,
        _has_depth,
    ),
)


class Recorder:
    """A party that notes what reaches it, and refuses trees of its own accord if told to."""

    def __init__(self) -> None:
        self.seen: list[Message] = []
        self.refuses = False

    def handle(self, request: Message) -> Message:
        if self.refuses:
            raise ProtocolError.stating("not now")
        self.seen.append(request)
        return Accepted()


def _stand(*requests: Message) -> tuple[Gate[Any], Recorder]:
    party = Recorder()
    gate = Gate(CONTRACT, Declared, party)
    for request in requests:
        gate.handle(request)
    return gate, party


def test_requests_of_the_contract_reach_the_party_in_their_order() -> None:
    requests = [Open(), Plant(2), Plant(1)]
    _, party = _stand(*requests)
    assert party.seen == requests


@pytest.mark.parametrize(
    ("before", "refused", "text"),
    [
        ([], Plant(1), "Plant is not agreed on after the beginning"),
        ([Open()], Open(), "Open is not agreed on after Open"),
        ([Open(), Plant(2)], Plant(2), "ask for 4 in this run, and 3 are agreed on"),
        ([Open()], Plant(1, depth=2), "trees are of another depth than declared"),
        ([Open()], Other(), "Other is no request of this protocol"),
    ],
)
def test_a_request_outside_of_the_contract_is_refused_and_changes_nothing(
    before: list[Message], refused: Message, text: str
) -> None:
    gate, party = _stand(*before)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=re.escape(text)):
            gate.handle(refused)
    assert party.seen == before
    rest = [Plant(1)] if before else [Open(), Plant(3)]
    for request in rest:
        gate.handle(request)
    assert party.seen == [*before, *rest]


def test_what_the_party_itself_refuses_is_not_counted() -> None:
    gate, party = _stand(Open())
    party.refuses = True
    with pytest.raises(ProtocolError):
        gate.handle(Plant(3))
    party.refuses = False
    gate.handle(Plant(3))
    assert len(party.seen) == 2


@pytest.mark.parametrize(
    ("document", "contract"),
    [
        ("explanation/protocols/vertical.md", vertical.CONTRACT),
        ("explanation/protocols/vertical.md", encrypted.CONTRACT),
        ("explanation/protocols/horizontal.md", horizontal.CONTRACT),
        ("explanation/protocols/linear.md", linear.CONTRACT),
        ("how-to/alignment.md", alignment.KEYED_HASH),
        ("how-to/alignment.md", alignment.PSI),
        ("how-to/validation.md", scoring.CONTRACT),
    ],
)
def test_documents_show_the_contracts_as_they_are(
    document: str, contract: Sequence[Clause[Any]]
) -> None:
    assert list_clauses(contract) in (DOCUMENTS / document).read_text()


def test_a_contract_reads_as_a_table() -> None:
    assert list_clauses(CONTRACT).splitlines()[2:] == [
        "| `Open` | the beginning | once | – |",
        "| `Plant` | `Open`, `Plant` | the trees declared | the depth |",
    ]
