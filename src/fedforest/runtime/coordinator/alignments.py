"""Align the rows of parties, for a run or for one prediction."""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from fedforest.errors import FederationError
from fedforest.protocol.alignment.coordinator import CommonRows
from fedforest.protocol.alignment.psi_coordinator import intersect
from fedforest.protocol.alignment.recall_coordinator import recall
from fedforest.protocol.alignment.standing_alignment import StandingPoints
from fedforest.protocol.asking import Conversation
from fedforest.runtime.coordinator.run_stages import RunParts, say
from fedforest.runtime.coordinator.standing_alignments import (
    CoordinatorStandingAlignments,
    standing_name,
)
from fedforest.runtime.driver import run as drive
from fedforest.runtime.messages.envelope import ALIGNMENT_PART, RunRequest, derive_part
from fedforest.runtime.messages.orders import (
    STANDARD_DAYS,
    AlignRows,
    AnyRun,
    Order,
    PredictVertical,
)
from fedforest.runtime.messages.party_requests import BeginRun, DropAlignment, EndRun
from fedforest.runtime.messages.results import Alignment
from fedforest.runtime.messages.roles import AlignmentRole, Role
from fedforest.runtime.messages.signed_orders import Submission
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.trainings.alignment import (
    CONVERSATIONS,
    align_roles,
    check_alignment,
    describe_alignment,
)
from fedforest.transport.base import Transport
from fedforest.transport.codec import encode

_NO_ROLES: Mapping[str, Role] = {}


def align_for_run(
    parts: RunParts,
    order: AnyRun,
    next_roles: Mapping[str, Role],
    standing: CoordinatorStandingAlignments,
) -> Alignment:
    """Have parties keep their common rows; a finished alignment stays."""
    alignment = parts.recall(ALIGNMENT_PART, Alignment)
    if alignment is None:
        standing.check(order)
        part = derive_part(parts.run, ALIGNMENT_PART)
        plan = _plan(part, order, standing, next_roles)
        common = parts.converse(ALIGNMENT_PART, plan.roles, plan.conversation)
        alignment = describe_alignment(common, part.hex())
        parts.end(ALIGNMENT_PART, order.data, alignment, keep=alignment.id)
    if isinstance(order, AlignRows) and (order.name or order.extends):
        return standing.publish(order, alignment)
    return _name(alignment, order, standing)


def align_for_prediction(
    transport: Transport,
    order: PredictVertical,
    standing: CoordinatorStandingAlignments,
    asked: Submission,
) -> Alignment:
    """Have parties keep their common rows for one prediction.

    No journal is written. An alignment that fails is dropped; the next one has a fresh id.
    """
    terms = Terms(asker=order.asker, n_parties=len(order.data), aligns=True)
    check_alignment(order.data)
    standing.check(order)
    run = asked.part(ALIGNMENT_PART)
    plan = _plan(run, order, standing)
    begin = partial(BeginRun, run, terms=terms, proof=asked.proof)
    try:
        say(transport, {party: begin(role=role) for party, role in plan.roles.items()})
        common = drive(plan.conversation, _Numbering(run, transport))
        say(transport, {party: EndRun(run, run.hex()) for party in order.data})
    except FederationError:
        say(transport, {party: EndRun(run, None) for party in order.data}, may_lose=True)
        raise
    return _name(describe_alignment(common, run.hex()), order, standing)


def remove_alignment(
    transport: Transport,
    connected: Collection[str],
    standing: CoordinatorStandingAlignments,
    name: str,
) -> list[str]:
    """Remove a standing alignment at every role; return the parties that are away.

    These keep their keys until the alignment's time is over, or until their owners remove them.
    """
    record = standing.read(name)
    present = [party for party in record.parties if party in connected]
    dropping = dict.fromkeys(present, DropAlignment(record.version))
    done = say(transport, dropping, may_lose=True)
    standing.remove(name)
    return [party for party in record.parties if party not in done]


class _Plan(NamedTuple):
    """The roles of an alignment, and its conversation from the beginning."""

    roles: Mapping[str, AlignmentRole]
    conversation: Conversation[CommonRows]


def _plan(
    run: bytes,
    order: Order,
    standing: CoordinatorStandingAlignments,
    next_roles: Mapping[str, Role] = _NO_ROLES,
) -> _Plan:
    """Choose between an alignment of all ids, of those that are new, and of none."""
    method, data = order.alignment_method, order.data
    if name := standing_name(order):
        record = standing.read(name)
        data = {party: order.data[party] for party in record.parties}
        if isinstance(order, AlignRows):
            roles = align_roles(data, method, extends=record.version)
            before = standing.read_points(record)
            return _Plan(roles, _intersect_and_keep(run, tuple(data), before, standing))
        roles = align_roles(data, method, next_roles, recalls=record.version)
        return _Plan(roles, recall(run, tuple(data), record.state.n_common))
    if isinstance(order, AlignRows) and order.name:
        roles = align_roles(data, method, name=order.name, days=order.days or STANDARD_DAYS)
        return _Plan(roles, _intersect_and_keep(run, tuple(data), None, standing))
    return _Plan(align_roles(data, method, next_roles), CONVERSATIONS[method](run, tuple(data)))


def _intersect_and_keep(
    run: bytes,
    parties: tuple[str, ...],
    before: StandingPoints | None,
    standing: CoordinatorStandingAlignments,
) -> Conversation[CommonRows]:
    """Intersect, and store what an extension needs before parties store theirs."""
    found = yield from intersect(run, parties, before)
    standing.keep_points(run.hex(), found.points)
    return found.common


def _name(alignment: Alignment, order: Order, standing: CoordinatorStandingAlignments) -> Alignment:
    """Add the standing alignment whose rows were used."""
    name = standing_name(order)
    if not name:
        return alignment
    return msgspec.structs.replace(
        alignment, standing=name, expires=standing.read(name).state.expires
    )


class _Numbering:
    """A transport that wraps requests with the run's id and a number for each party."""

    def __init__(self, run: bytes, transport: Transport) -> None:
        self._run = run
        self._transport = transport
        self._n_asked: Counter[str] = Counter()

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Send one request to each party and return the replies."""
        self._n_asked.update(requests.keys())
        wrapped = {
            party: encode(RunRequest(self._run, self._n_asked[party], memoryview(data)))
            for party, data in requests.items()
        }
        return self._transport.exchange(wrapped, may_lose=may_lose)
