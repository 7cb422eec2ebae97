"""Align the rows of parties, for a run or for one prediction."""

import secrets
from collections import Counter
from collections.abc import Mapping

from fedforest.errors import FederationError
from fedforest.runtime.coordinator.run_stages import RunParts, derive_part, say
from fedforest.runtime.driver import run as drive
from fedforest.runtime.messages.envelope import RUN_ID_BYTES, RunRequest
from fedforest.runtime.messages.orders import AnyRun, PredictVertical
from fedforest.runtime.messages.party_requests import BeginRun, EndRun
from fedforest.runtime.messages.results import Alignment
from fedforest.runtime.messages.roles import Role
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.trainings.alignment import (
    METHODS,
    align_roles,
    check_alignment,
    describe_alignment,
)
from fedforest.transport.base import Transport
from fedforest.transport.codec import encode

PART = "alignment"


def align_for_run(parts: RunParts, order: AnyRun, next_roles: Mapping[str, Role]) -> Alignment:
    """Have parties keep their common rows; a finished alignment stays."""
    known = parts.recall(PART, Alignment)
    if known is not None:
        return known
    data, method, part = order.data, order.alignment_method, derive_part(parts.run, PART)
    conversation = METHODS[method].converse(part, tuple(data))
    common = parts.converse(PART, align_roles(data, method, next_roles), conversation)
    alignment = describe_alignment(common, part.hex())
    parts.end(PART, data, alignment, keep=alignment.id)
    return alignment


def align_for_prediction(transport: Transport, order: PredictVertical) -> Alignment:
    """Have parties keep their common rows for one prediction.

    No journal is written. An alignment that fails is dropped; the next one has a fresh id.
    """
    data, terms = order.data, Terms(asker=order.asker, n_parties=len(order.data), aligns=True)
    check_alignment(data)
    run = secrets.token_bytes(RUN_ID_BYTES)
    parties = tuple(data)
    try:
        method = order.alignment_method
        roles = align_roles(data, method)
        say(transport, {party: BeginRun(run, role, terms) for party, role in roles.items()})
        common = drive(METHODS[method].converse(run, parties), _Numbering(run, transport))
        say(transport, {party: EndRun(run, run.hex()) for party in parties})
    except FederationError:
        say(transport, {party: EndRun(run, None) for party in parties}, may_lose=True)
        raise
    return describe_alignment(common, run.hex())


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
