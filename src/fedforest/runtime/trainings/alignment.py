"""Alignment as a training without a model: parties find the rows that all of them have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple

from fedforest.errors import ConfigurationError
from fedforest.protocol.aggregation.introduction import PartyIdentity, check_pins
from fedforest.protocol.alignment import messages
from fedforest.protocol.alignment.contract import KEYED_HASH, PSI, RECALL
from fedforest.protocol.alignment.coordinator import CommonRows, align
from fedforest.protocol.alignment.party import Aligner, KeyedHashAligner, OwnIds
from fedforest.protocol.alignment.psi_coordinator import intersect
from fedforest.protocol.alignment.psi_party import IntersectionAligner
from fedforest.protocol.alignment.recall_party import RecallAligner
from fedforest.protocol.alignment.standing_alignment import StandingIds
from fedforest.protocol.asking import Conversation, Handler, Message
from fedforest.protocol.contract import Clause, Gate
from fedforest.protocol.label_door import OWNER, Accountant
from fedforest.runtime.disclosure.leakage import LeakageReport
from fedforest.runtime.disclosure.run_leakage import Conclusions, count_traffic
from fedforest.runtime.driver import Exchange
from fedforest.runtime.messages.orders import AlignmentMethod, AlignRows
from fedforest.runtime.messages.results import Alignment
from fedforest.runtime.messages.roles import AlignmentRole, Role, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.trainings.base import (
    Circumstances,
    CoordinatorMeans,
    Ended,
    Reports,
    RunFigures,
    Training,
)
from fedforest.runtime.trainings.party_task import (
    Demands,
    Holdings,
    KeptOutcome,
    PartyMeans,
    PartyStores,
)
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.workers import ALONE, Workers

_NO_COLUMNS: Mapping[str, Role] = {}


Converse = Callable[[bytes, Sequence[str]], Conversation[CommonRows]]


def intersect_once(run: bytes, parties: Sequence[str]) -> Conversation[CommonRows]:
    """Intersect without keeping what an extension would need."""
    return (yield from intersect(run, parties)).common


CONVERSATIONS: Mapping[AlignmentMethod, Converse] = {"keyed-hash": align, "psi": intersect_once}


class RowIds(NamedTuple):
    """The name of a data set, the ids of its rows, and the standing alignment that is used."""

    data: str
    own: OwnIds
    before: StandingIds | None = None


@dataclass(slots=True)
class AlignmentWork:
    """An alignment of one party's rows with those of others."""

    party: Aligner
    rows: RowIds
    role: AlignmentRole
    contract: InitVar[Sequence[Clause[None]]]
    requests: tuple[type[Message], ...] = messages.REQUESTS
    handler: Handler = field(init=False)

    def __post_init__(self, contract: Sequence[Clause[None]]) -> None:
        self.handler = Gate(contract, None, self.party)

    def keep(self, kept: KeptOutcome, stores: PartyStores) -> JsonValue:
        """Store the rows that all parties have, or what makes the alignment a standing one."""
        if self.role.is_standing:
            assert isinstance(self.party, IntersectionAligner), "no other method is kept"
            ids = self.party.standing(bytes.fromhex(kept.id))
            stores.standing.keep(kept.id, ids, self.role)
        else:
            stores.alignments.keep(kept.id, self.rows.data, self.rows.own.ids, self.party.rows)
        return None


def make_aligner(
    role: AlignmentRole,
    rows: RowIds,
    member: PartyIdentity,
    accountant: Accountant = OWNER,
    workers: Workers = ALONE,
) -> tuple[Aligner, Sequence[Clause[None]]]:
    """Make a party's side of the method of a role; return it with its contract."""
    own, before = rows.own, rows.before
    if role.recalls is not None:
        assert before is not None, "read with the ids"
        return RecallAligner(member, own, before), RECALL
    if role.method == "keyed-hash":
        return KeyedHashAligner(member, own, accountant), KEYED_HASH
    return IntersectionAligner(member, own, accountant, workers, before), PSI


class RowAlignment(Training[AlignRows, AlignmentRole, RowIds, CommonRows, Alignment]):
    """The rows that all parties have, by the ids of their data sets."""

    protocol = "alignment"
    order_type = AlignRows
    role_type = AlignmentRole
    result_type = Alignment
    requests = messages.REQUESTS
    user_learns = (
        "how many rows every party has, how many have no id of their own, and how many are "
        "common to all"
    )
    is_only_alignment = True

    def check(self, order: AlignRows) -> None:
        """Refuse an invalid request before any party is asked."""
        check_alignment(order.data)
        check_standing(order)

    def roles(
        self,
        order: AlignRows,
        rows: RowChoice | None = None,  # noqa: ARG002 - all of them
    ) -> Mapping[str, AlignmentRole]:
        """Return the role of each party."""
        return align_roles(order.data, order.method)

    def terms(self, order: AlignRows) -> Terms:
        """Return the terms that parties check against their policies."""
        return Terms(asker=order.asker, n_parties=len(order.data), aligns=True)

    def conversation(self, order: AlignRows, means: CoordinatorMeans) -> Conversation[CommonRows]:
        """Start the coordinator's side of the alignment."""
        return CONVERSATIONS[order.method](means.run, tuple(order.data))

    def result(self, order: AlignRows, trained: CommonRows, ended: Ended) -> Alignment:  # noqa: ARG002 - follows from the rows
        """Return the user's result; parties store their rows under its id."""
        return describe_alignment(trained, ended.model)

    def figures(self, result: Alignment) -> RunFigures:
        """Return the figures of a result for the history."""
        return RunFigures(n_rows=result.n_common, alignment=result)

    def reports(self, order: AlignRows, result: Alignment, how: Circumstances) -> Reports:  # noqa: ARG002 - always the same
        """Report nothing beyond what messages declare; no label is used."""
        return Reports(LeakageReport(()))

    def conclude(
        self,
        order: AlignRows,
        result: Alignment,
        exchanges: Sequence[Exchange],
        spent_before: float,
    ) -> Conclusions:
        """Return the number of common rows and the traffic."""
        reports = self.reports(order, result, Circumstances(spent_before))
        return Conclusions({"rows": result.n_common, **count_traffic(exchanges)}, reports.leakage)

    def demands(self, role: AlignmentRole, terms: Terms) -> Demands:  # noqa: ARG002 - of the role
        """Return what the owner of the data must allow; alignment has a rule of its own."""
        return Demands(
            None,
            alignment=role.method,
            peers=role.peers,
            standing_days=role.days,
            extends=role.extends,
            recalls=role.recalls,
        )

    def read(self, role: AlignmentRole, data: Any, holdings: Holdings) -> RowIds:
        """Read the ids; check pins, label and weight now, before ids are hashed."""
        check_pins(role.peers, holdings.keys.pins)
        for name in filter(None, (role.label, role.weight)):
            data.check_has(name)
        version = role.extends or role.recalls
        before = None if version is None else holdings.standing.read(version)
        return RowIds(data.name, OwnIds(data.own_ids(), data.id_form), before)

    def work(self, role: AlignmentRole, columns: RowIds, means: PartyMeans) -> AlignmentWork:
        """Make a fresh handler."""
        member = means.keys.member(means.randomness)
        party, contract = make_aligner(role, columns, member, means.accountant, means.workers)
        return AlignmentWork(party, columns, role, contract)


ALIGNMENT = RowAlignment()


def check_alignment(data: Mapping[str, str]) -> None:
    """Refuse to align the rows of one party."""
    if len(data) < 2:
        raise ConfigurationError("rows are aligned between parties; name data sets of two or more")


def check_standing(order: AlignRows) -> None:
    """Refuse a standing alignment that could not be kept, or extended."""
    if not order.name and not order.extends:
        if order.days is not None:
            raise ConfigurationError("days are for an alignment that is kept; give it a name")
        return
    if order.name and order.extends:
        raise ConfigurationError("an alignment is either made under a name or extended")
    if order.extends and order.days is not None:
        raise ConfigurationError("an extension does not change how long an alignment lives")
    if order.method != "psi":
        raise ConfigurationError(
            "a standing alignment is an intersection, method psi: hashing ids anew takes seconds"
        )


def align_roles(
    data: Mapping[str, str],
    method: AlignmentMethod,
    next_roles: Mapping[str, Role] = _NO_COLUMNS,
    **standing: Any,
) -> dict[str, AlignmentRole]:
    """Return the roles of an alignment, with the label and weight columns of the next roles.

    `standing` are the fields of a role that make, extend or recall a standing alignment.
    """
    return {
        party: AlignmentRole(
            data=name,
            method=method,
            peers=tuple(peer for peer in data if peer != party),
            label=next_roles[party].label if party in next_roles else None,
            weight=next_roles[party].weight if party in next_roles else None,
            **standing,
        )
        for party, name in data.items()
    }


def describe_alignment(common: CommonRows, alignment: str) -> Alignment:
    """Describe an alignment as the coordinator knows it, with its id."""
    return Alignment(
        n_common=common.n_common,
        n_rows=dict(common.n_rows),
        n_duplicates=dict(common.n_left_out),
        id=alignment,
    )
