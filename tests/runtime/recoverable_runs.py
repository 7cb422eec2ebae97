"""Small trainings whose coordinator and parties can be killed at any point and started again.

Everything real but the network: coordinators, parties, journals on the disk. The secrets of runs
come from a seed, so that a disturbed run can be compared with an undisturbed one byte by byte.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.asking import Conversation, Handler, Message
from fedforest.protocol.horizontal.coordinator import training as horizontal
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.protocol.vertical import coordinator as vertical
from fedforest.protocol.vertical import messages as vertical_messages
from fedforest.protocol.vertical.encrypted import messages as encrypted_messages
from fedforest.protocol.vertical.encrypted.coordinator import train_encrypted
from fedforest.protocol.vertical.encrypted.label_party import LabelParty
from fedforest.protocol.vertical.encrypted.party import ColumnParty
from fedforest.protocol.vertical.order import EarlyStopping, VerticalOrder
from fedforest.protocol.vertical.party import VerticalParty
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.party.run import MakeHandler, PartyRun
from fedforest.runtime.randomness import RandomnessSource, SystemRandomness
from fedforest.runtime.recovery.resumable import Wishes, run_with_journal
from fedforest.runtime.recovery.run_store import RunStore, StoredRun
from fedforest.runtime.trainings.horizontal import REQUESTS as HORIZONTAL_REQUESTS
from fedforest.runtime.trainings.in_process import make_members
from fedforest.transport.base import Transport
from fedforest.transport.codec import decode
from fedforest.transport.in_process import InProcess
from fedforest.tree.files.forests import encode_forest, encode_partial
from fedforest.tree.forest.partial import union
from fedforest.tree.table.bins import Bins
from tests.protocol.horizontal.federations import Shares
from tests.protocol.horizontal.federations import make_order as order_horizontally
from tests.protocol.vertical.cases import VerticalCase, sample_case
from tests.protocol.vertical.conversations import make_labels, party_tables
from tests.protocol.vertical.conversations import make_order as order_vertically
from tests.protocol.vertical.encrypted_trainings import small_case as encrypted_case

RUN = bytes(range(16))
SMALL_BATCHES = 1000  # bytes: two trees at a time, so that a run has several batches


class Killed(BaseException):
    """What happens to a process; nobody catches it but the test."""


@dataclass(frozen=True)
class Scenario:
    """A training: whom it needs, how its two sides are made, and what it leaves behind."""

    parties: tuple[str, ...]
    make_conversation: Callable[[RandomnessSource], Conversation[Any]]
    make_handler: Callable[[str], MakeHandler]
    collect: Callable[[Any, Mapping[str, Any]], bytes]  # the result and the parties as one file


def vertical_scenario(case: VerticalCase, **settings: Any) -> Scenario:
    order = order_vertically(case, **{"batch_bytes": SMALL_BATCHES, **settings})
    tables, label_party = party_tables(case), f"p{case.label_party}"

    def make_handler(name: str) -> MakeHandler:
        def make(
            _: bytes, randomness: RandomnessSource
        ) -> tuple[Handler, tuple[type[Message], ...]]:
            labels = make_labels(case) if name == label_party else None
            party = VerticalParty(tables[name], randomness.of("training"), labels=labels)
            return party, vertical_messages.REQUESTS

        return make

    return Scenario(
        order.parties,
        lambda _: vertical.train(order),
        make_handler,
        partial(collect_vertical, order),
    )


def encrypted_scenario(case: VerticalCase, **settings: Any) -> Scenario:
    order = order_vertically(case, **{"batch_bytes": SMALL_BATCHES, **settings})
    tables, known = party_tables(case), make_members(order.parties, SystemRandomness(5))
    depth = order.parameters.depth_limit

    def make_handler(name: str) -> MakeHandler:
        def make(
            _: bytes, randomness: RandomnessSource
        ) -> tuple[Handler, tuple[type[Message], ...]]:
            member = replace(known[name], randomness=randomness.of("aggregation"))
            if name == order.label_party:
                party: Any = LabelParty(tables[name], member, make_labels(case), order.parameters)
            else:
                party = ColumnParty(tables[name], member, order.label_party, max_depth=depth)
            return party, encrypted_messages.REQUESTS

        return make

    def collect(trained: Any, parties: Mapping[str, Any]) -> bytes:
        secret = parties[order.label_party].outline()
        whole = replace(trained, outline=trained.outline.with_leaves_of(secret))
        return collect_vertical(order, whole, parties)

    return Scenario(order.parties, lambda _: train_encrypted(order, RUN), make_handler, collect)


def collect_vertical(order: VerticalOrder, trained: Any, parties: Mapping[str, Any]) -> bytes:
    """All shares and the forest they make together, with all that training told about it."""
    models = [parties[name].model() for name in order.parties]
    forest = union(trained.outline, [model.partial for model in models])
    told = [*trained.importances.values(), trained.out_of_bag_curve, trained.out_of_bag_votes]
    return b"".join(
        [
            encode_forest(forest, Bins.concatenate([model.bins for model in models])),
            *(encode_partial(model.partial, model.bins) for model in models),
            *(b"" if numbers is None else numbers.tobytes() for numbers in told),
        ]
    )


def horizontal_scenario(shares: Shares, plug: Plug = "plain", **settings: Any) -> Scenario:
    order = order_horizontally(shares, batch_bytes=SMALL_BATCHES, **settings)
    is_noisy = order.privacy is not None
    known = make_members(order.parties, SystemRandomness(5))  # identities outlive runs

    def make_handler(name: str) -> MakeHandler:
        def make(
            _: bytes, randomness: RandomnessSource
        ) -> tuple[Handler, tuple[type[Message], ...]]:
            identity, pins = known[name].identity, known[name].pins
            member = PartyIdentity(name, identity, pins, randomness.of("aggregation"))
            party = HorizontalParty(
                shares.table(name),
                shares.labels(name),
                randomness.of("training"),
                make_aggregator(plug, member=member, is_noisy=is_noisy),
                response_key=SystemRandomness(6).of(name)(32),
            )
            return party, HORIZONTAL_REQUESTS

        return make

    def make_conversation(randomness: RandomnessSource) -> Conversation[Any]:
        own = randomness.of("coordinator")
        aggregation = make_aggregation(plug, RUN, own, is_noisy=is_noisy)
        return horizontal.train(order, aggregation)

    def collect(trained: Any, parties: Mapping[str, Any]) -> bytes:
        held = [bytes(parties[name]._model_file or b"") for name in order.parties]
        return b"".join([trained.model, *held])

    return Scenario(order.parties, make_conversation, make_handler, collect)


def sample_shares(**changes: Any) -> Shares:
    """Rows of three parties: numbers, gaps, categories; two classes."""
    rng = np.random.default_rng(11)
    n_rows = 60
    X: dict[str, Any] = {f"c{k}": rng.standard_normal(n_rows) for k in range(3)}
    X["c1"][::9] = np.nan
    X["c3"] = rng.choice(np.array(["red", "green", "blue"], object), n_rows)
    y = (X["c0"] + (X["c3"] == "red") > 0.3).astype(np.int64)
    return Shares(**{"X": X, "y": y, "owner": np.arange(n_rows) % 3, **changes})


def small_case(**changes: Any) -> VerticalCase:
    case = sample_case(parameters={"n_estimators": 5, "max_depth": 3}, **changes)
    rows = slice(0, 60)
    columns = {name: column[rows] for name, column in case.columns.items()}
    return VerticalCase(columns, case.y[rows], None, case.parameters, case.shares, case.label_party)


def number_case() -> VerticalCase:
    """The same with weighted numbers, whose sums the coordinator adds up itself."""
    rng = np.random.default_rng(3)
    case = small_case()
    return replace(case, y=case.y + rng.standard_normal(60), weights=rng.uniform(0.5, 2.0, 60))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "vertical, encoded": lambda: vertical_scenario(small_case()),
    "vertical, batches side by side": lambda: vertical_scenario(
        small_case(), n_slots=3, least_entries=1, batch_bytes=2**20
    ),
    "vertical, randomized response": lambda: vertical_scenario(
        small_case(), response=RandomizedResponse(2.0)
    ),
    "vertical, out of bag, early stopping": lambda: vertical_scenario(
        small_case(), out_of_bag=True, early_stopping=EarlyStopping(2, 0.5), batch_bytes=2400
    ),
    "vertical, numbers, out of bag": lambda: vertical_scenario(
        number_case(), out_of_bag=True, batch_bytes=2400
    ),
    "vertical, encrypted": lambda: encrypted_scenario(encrypted_case(), out_of_bag=True),
    "horizontal, plain": lambda: horizontal_scenario(sample_shares(), max_depth=3),
    "horizontal, masked": lambda: horizontal_scenario(sample_shares(), Masked(k=1), max_depth=3),
    "horizontal, ring": lambda: horizontal_scenario(sample_shares(), Ring(), max_depth=2),
    "horizontal, shamir": lambda: horizontal_scenario(sample_shares(), Shamir(2), max_depth=2),
    "horizontal, local noise": lambda: horizontal_scenario(
        sample_shares(), privacy=LocalDP(keep=0.9), max_depth=2
    ),
    "horizontal, masked global noise": lambda: horizontal_scenario(
        sample_shares(), Masked(), privacy=GlobalDP(epsilon_query=1.0), max_depth=2
    ),
}


@dataclass
class RunningParty:
    """A party's process: what it has on its disk, and what it has in memory while it lives."""

    store: RunStore
    make_handler: MakeHandler
    alive: PartyRun | None = None

    def process(self) -> PartyRun:
        """The party, started if it is not running."""
        if self.alive is None:
            has_run = self.store.has(RUN)
            stored = self.store.open(RUN) if has_run else self.store.begin(RUN, b"description")
            self.alive = PartyRun(stored, self.make_handler)
        return self.alive

    def kill(self) -> None:
        """Nothing is tidied up; only the system closes what was open."""
        if self.alive is not None:
            self.alive._stored.journal.close()
        self.alive = None

    def answer(self, data: bytes) -> bytes:
        request = decode(data, (RunRequest,))
        assert isinstance(request, RunRequest)
        return self.process().answer(request)

    @property
    def journal(self) -> Path:
        return self.store.folder(RUN) / "journal"


@dataclass
class Recoverable:
    """A training on disk; `carry_on` is one life of the coordinator's process."""

    scenario: Scenario
    home: Path
    parties: dict[str, RunningParty] = field(init=False)

    def __post_init__(self) -> None:
        self.coordinator = self._store("coordinator")
        self.parties = {
            name: RunningParty(self._store(name), self.scenario.make_handler(name))
            for name in self.scenario.parties
        }

    def _store(self, name: str) -> RunStore:
        """The secret of the run is the same however often a disk is too full to begin it."""

        def randomness(n_bytes: int) -> bytes:
            return SystemRandomness(1).of(name)(n_bytes)

        return RunStore(self.home / name, randomness)

    def endpoints(self) -> dict[str, Callable[[bytes], bytes]]:
        return {name: party.answer for name, party in self.parties.items()}

    def open(self) -> StoredRun:
        has_run = self.coordinator.has(RUN)
        return self.coordinator.open(RUN) if has_run else self.coordinator.begin(RUN, b"order")

    def carry_on(
        self,
        transport: Transport | None = None,
        wishes: Wishes | None = None,
        log: ExchangeLog | None = None,
    ) -> Any:
        """Begin or resume; whatever ends it, the journal is let go of as at a process's end."""
        stored = self.open()
        try:
            conversation = self.scenario.make_conversation(stored.randomness())
            return run_with_journal(
                conversation, transport or InProcess(self.endpoints()), stored, log, wishes
            )
        finally:
            stored.close()

    def finish(self, wishes: Wishes | None = None) -> bytes:
        """Carry on to the end; everything that the run leaves behind."""
        trained = self.carry_on(wishes=wishes)
        return self.collect(trained)

    def collect(self, trained: Any) -> bytes:
        handlers = {name: party.process().handler for name, party in self.parties.items()}
        return self.scenario.collect(trained, handlers)

    @property
    def journal(self) -> Path:
        return self.coordinator.folder(RUN) / "journal"

    def record(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """Carry on to the end; by party every request that it got, and its reply."""
        said: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in self.parties}

        def answer(name: str, data: bytes) -> bytes:
            reply = self.parties[name].answer(data)
            said[name].append((data, reply))
            return reply

        self.carry_on(InProcess({name: partial(answer, name) for name in self.parties}))
        return said

    def kill_everybody(self) -> None:
        for party in self.parties.values():
            party.kill()
