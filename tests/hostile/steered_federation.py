"""Real parties of a protected horizontal run under a coordinator that asks what it likes.

Keys, masks, rings and shares are the real ones on both sides. The coordinator's requests pass
through `steer`, which may tell every party something else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import msgpack
from numpy.typing import NDArray

from fedforest.errors import TooFewParties
from fedforest.protocol.aggregation.base import Segment
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.asking import Message, ask
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.messages import (
    BeginTrees,
    CutMoves,
    CutsQuestion,
    DeclareTable,
    ProposeThresholds,
)
from fedforest.protocol.horizontal.order import Scope
from fedforest.runtime.driver import run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.runtime.trainings.in_process import make_members
from fedforest.transport.in_process import InProcess
from fedforest.tree.table.frames import read_table
from tests.protocol.horizontal.asking_one import NOTHING, ask_cuts, describe, pack_candidates
from tests.protocol.horizontal.transcripts import SpiedParty

PLUGS: list[Plug] = [Masked(), Masked(1), Ring(), Shamir(2), Shamir(4)]
N_CLASSES = 2
NOT_ASKED = (np.nan, np.nan)
LARGEST = 10_000  # of a sum: masks that do not cancel exceed it

Steer = Callable[[str, Message], Message]
Table = tuple[NDArray[np.float64], NDArray[Any]]


def as_it_is(_: str, request: Message) -> Message:
    return request


def draw_tables(parties: Sequence[str], n_rows: int = 30, *, seed: int = 0) -> dict[str, Table]:
    """Two columns, the second not ordered as the first; two classes at every party."""
    rng = np.random.default_rng(seed)
    tables: dict[str, Table] = {}
    for number, party in enumerate(parties):
        y = (rng.random(n_rows) < 0.2 + 0.1 * number).astype(np.int64)
        y[:2] = 0, 1
        tables[party] = rng.normal(size=(n_rows, 2)), y
    return tables


class SteeredFederation:
    """The parties, and the coordinator's place in its run."""

    def __init__(
        self,
        plug: Plug,
        blocks: Sequence[str],
        *,
        tables: Mapping[str, Table] | None = None,
        steer: Steer = as_it_is,
        scope: Scope = "tree",
        least: int = 2,
        declared: Mapping[str, bytes] | None = None,
        agreed: Mapping[str, Any] | None = None,
    ) -> None:
        names = tuple("".join(blocks))
        self.tables = tables or draw_tables(names)
        self.steer = steer
        self.left: tuple[int, ...] = ()  # blocks that left the run
        randomness = SystemRandomness(3)
        members = make_members(names, randomness)
        self.parties = {
            name: SpiedParty(
                read_table({"x0": X[:, 0], "x1": X[:, 1]}, may_be_empty=True),
                PartyLabels(y, None, y.dtype.kind == "f"),
                randomness.of(f"{name}/training"),
                make_aggregator(plug, member=members[name], least_participants=least),
                least_participants=least,
                scope=scope,
                declared=(declared or {}).get(name, b""),
            )
            for name, (X, y) in self.tables.items()
        }
        answers = {name: make_endpoint(party, REQUESTS) for name, party in self.parties.items()}
        self._transport = InProcess(answers)
        own = randomness.of("coordinator")
        self._aggregation = make_aggregation(plug, own(16), own)
        told = {"blocks": tuple(map(tuple, blocks)), **(agreed or {})}
        self._begin(describe(2, N_CLASSES, **told))

    def _begin(self, agreed: Message) -> None:
        self.step = 0
        is_regression = any(y.dtype.kind == "f" for _, y in self.tables.values())
        self.tell(DeclareTable(is_regression))
        self.tell(agreed)
        self._carry(self._aggregation.introduce(tuple(self.parties)))

    def _carry(self, conversation: Any) -> Any:
        """Lead a real conversation, with each request steered."""

        def steered() -> Any:
            question = next(conversation)
            while True:
                told = {p: self.steer(p, request) for p, request in question.requests.items()}
                try:
                    question = conversation.send((yield replace(question, requests=told)))
                except StopIteration as done:
                    return done.value

        return run(steered(), self._transport)

    def tell(self, request: Any, parties: Sequence[str] = ()) -> Any:
        """Make the same request to some parties, or to all; return the replies."""
        return self._carry(ask(dict.fromkeys(parties or self.parties, request)))

    def start(
        self,
        segments: Mapping[str, Sequence[int]],
        *,
        left: tuple[int, ...] = (),
        draws: tuple[int, int] = (1, 1),
        columns: Sequence[int] = (0, 1),
    ) -> None:
        """Begin trees of these segments at each party."""
        self.step += 1
        requests: dict[str, Any] = {}
        for party, numbers in segments.items():
            own = memoryview(np.array(numbers, "<u2").tobytes())
            start = BeginTrees(own, bootstrap=False, n_draws=draws[0], n_rows=draws[1], left=left)
            bitmap = pack_candidates([columns] * len(numbers), 2)
            requests[party] = ProposeThresholds(self.step, start, None, bitmap)
        self._carry(ask(requests))

    def start_one(self, parties: str, *, segment: int = 0, **options: Any) -> None:
        """Begin one tree of these parties."""
        self.start({party: [segment] for party in parties}, **options)

    def move(self, parties: str, moves: CutMoves, n_open: int) -> None:
        """Make splits at these parties; both columns are candidates of all open nodes."""
        self.step += 1
        bitmap = pack_candidates([[0, 1]] * n_open, 2)
        self.tell(ProposeThresholds(self.step, None, moves, bitmap), tuple(parties))

    def count(
        self,
        parties: str,
        thresholds: Sequence[float] = NOT_ASKED,
        wholes: Sequence[bool] = (True,),
        *,
        segment: int = 0,
    ) -> NDArray[np.int64]:
        """Return the sum over these parties: a row of class counts per asked cut and whole node."""
        question = bytes(ask_cuts(thresholds, wholes, segment))
        return self._sum(parties, question, int(np.isfinite(thresholds).sum()) + sum(wholes))

    def count_tables(self, parties: str) -> NDArray[np.int64]:
        """Return the class counts of these parties' whole tables."""
        question = CutsQuestion(0, NOTHING, NOTHING, NOTHING, NOTHING, whole_table=True)
        return self._sum(parties, msgpack.encode(question), 1)

    def _sum(self, parties: str, question: bytes, n_vectors: int) -> NDArray[np.int64]:
        self.step += 1
        wanted = Segment(tuple(parties), question, n_vectors * N_CLASSES, LARGEST)
        gathered = self._carry(self._aggregation.gather(self.step, [wanted]))
        if gathered.lost:
            raise TooFewParties("a party was lost")
        counts: NDArray[np.int64] = gathered.sums[0].reshape(-1, N_CLASSES)
        return counts

    def truth(self, party: str) -> list[int]:
        """The secret: the class counts of one party's whole table."""
        counts: list[int] = np.bincount(self.tables[party][1], minlength=N_CLASSES).tolist()
        return counts
