"""Parties with ids, aligned over a network that keeps every byte."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fedforest.masking.key_agreement import Randomness
from fedforest.protocol.aggregation.introduction import PartyIdentity, make_members
from fedforest.protocol.alignment.coordinator import CommonRows
from fedforest.protocol.alignment.messages import REQUESTS
from fedforest.protocol.alignment.party import Aligner, OwnIds
from fedforest.protocol.alignment.payloads import IdForm
from fedforest.protocol.alignment.psi_coordinator import Intersected, intersect
from fedforest.protocol.alignment.psi_party import IntersectionAligner
from fedforest.protocol.alignment.recall_coordinator import recall
from fedforest.protocol.alignment.standing_alignment import StandingIds, StandingPoints
from fedforest.protocol.contract import Clause, Gate
from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.runtime.driver import run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.messages.orders import AlignmentMethod
from fedforest.runtime.messages.roles import AlignmentRole
from fedforest.runtime.trainings.alignment import CONVERSATIONS, RowIds, make_aligner
from fedforest.tree.workers import ALONE, Workers
from tests.protocol.aggregation.federations import seeded_randomness

RUN = b"alignment number 1"

Change = Callable[[str, bytes], bytes]


def leave(_party: str, data: bytes) -> bytes:
    return data


@dataclass
class Listener:
    """Carries bytes, keeps them, and may change requests on their way."""

    endpoints: Mapping[str, Callable[[bytes], bytes]]
    change: Change = leave
    requests: list[dict[str, bytes]] = field(default_factory=list)
    replies: list[dict[str, bytes]] = field(default_factory=list)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        self.requests.append(dict(requests))
        changed = {party: self.change(party, data) for party, data in requests.items()}
        self.replies.append({party: self.endpoints[party](changed[party]) for party in changed})
        return self.replies[-1]

    def everything(self) -> bytes:
        carried = [*self.requests, *self.replies]
        return b"".join(data for exchange in carried for data in exchange.values())


def make_randomness(names: Sequence[str], seed: int = 0) -> dict[str, Randomness]:
    return {name: seeded_randomness(seed, number) for number, name in enumerate(names)}


@dataclass
class Aligning:
    """Parties that align their ids."""

    ids: Mapping[str, Sequence[bytes]]
    seed: int = 0
    method: AlignmentMethod = "keyed-hash"
    accountants: Mapping[str, Accountant] = field(default_factory=dict)
    workers: Workers = ALONE
    forms: Mapping[str, IdForm] = field(default_factory=dict)
    before: Mapping[str, StandingIds] = field(default_factory=dict)  # that is extended, or recalled
    recalls: bool = False
    run: bytes = RUN
    members: dict[str, PartyIdentity] = field(init=False)
    parties: dict[str, Aligner] = field(init=False)
    listener: Listener = field(init=False)

    def __post_init__(self) -> None:
        self.members = make_members(make_randomness(tuple(self.ids), self.seed))
        self.put_together()

    def put_together(self) -> None:
        made = {name: self.make_party(name) for name in self.members}
        self.parties = {name: party for name, (party, _) in made.items()}
        self.listener = Listener(
            {
                name: make_endpoint(Gate(contract, None, party), REQUESTS)
                for name, (party, contract) in made.items()
            }
        )

    def make_party(self, name: str) -> tuple[Aligner, Sequence[Clause[None]]]:
        own = OwnIds(self.ids[name], self.forms.get(name, IdForm()))
        version = self.before[name].version.hex() if self.recalls else None
        role = AlignmentRole(data=name, method=self.method, recalls=version)
        accountant = self.accountants.get(name, OWNER)
        return make_aligner(
            role,
            RowIds(name, own, self.before.get(name)),
            self.members[name],
            accountant,
            self.workers,
        )

    def align(self) -> CommonRows:
        return run(CONVERSATIONS[self.method](self.run, tuple(self.ids)), self.listener)

    def intersect(self, before: StandingPoints | None = None) -> Intersected:
        """Intersect, or extend what was found before."""
        return run(intersect(self.run, tuple(self.ids), before), self.listener)

    def recall(self, n_common: int) -> CommonRows:
        return run(recall(self.run, tuple(self.ids), n_common), self.listener)

    def standing(self) -> dict[str, StandingIds]:
        """What each party keeps."""
        kept = {}
        for name, party in self.parties.items():
            assert isinstance(party, IntersectionAligner)
            kept[name] = party.standing(self.run)
        return kept

    def common_ids(self) -> dict[str, list[bytes]]:
        """What each party took, in the common order."""
        return {
            name: [self.ids[name][row] for row in party.rows]
            for name, party in self.parties.items()
        }
