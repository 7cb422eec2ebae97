"""Alignments as a coordinator's service carries them out: for a run, or for one prediction."""

import secrets
from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from fedforest.errors import ConfigurationError, FederationError
from fedforest.protocol.alignment.coordinator import CommonRows, align
from fedforest.runtime.driver import run as drive
from fedforest.runtime.envelope import RUN_ID_BYTES, RunRequest
from fedforest.runtime.orders import AlignRows, PredictVertical, TrainVertical
from fedforest.runtime.party_requests import BeginRun, EndRun
from fedforest.runtime.results import Alignment
from fedforest.runtime.roles import AlignmentRole
from fedforest.runtime.run_parts import RunParts, derive_part, say
from fedforest.runtime.terms import Terms
from fedforest.transport.base import Transport
from fedforest.transport.codec import encode

PART = "alignment"


def check_alignment(data: Mapping[str, str]) -> None:
    """Refuse what no party needs to be asked about."""
    if len(data) < 2:
        raise ConfigurationError("rows are aligned between parties; name data sets of two or more")


def align_for_run(parts: RunParts, order: AlignRows | TrainVertical) -> Alignment:
    """Have parties keep their common rows under the id of the run."""
    data = order.data
    known = parts.recall(PART, Alignment)
    if known is not None:
        return known
    conversation = align(derive_part(parts.run, PART), tuple(data))
    common = parts.converse(PART, _assign(order), conversation)
    alignment = _describe(common, parts.run.hex())
    parts.end(PART, data, alignment, keep=alignment.id)
    return alignment


def align_for_prediction(transport: Transport, order: PredictVertical) -> Alignment:
    """The same for rows that are predicted once: asked anew, with a fresh key, if it fails."""
    data, terms = order.data, Terms(asker=order.asker, aligns=True)
    check_alignment(data)
    run = secrets.token_bytes(RUN_ID_BYTES)
    parties = tuple(data)
    try:
        roles = _assign(order)
        say(transport, {party: BeginRun(run, role, terms) for party, role in roles.items()})
        common = drive(align(run, parties), _Numbering(run, transport))
        say(transport, {party: EndRun(run, run.hex()) for party in parties})
    except FederationError:
        say(transport, {party: EndRun(run, None) for party in parties}, may_lose=True)
        raise
    return _describe(common, run.hex())


class _Numbering:
    """Carries the requests of a run, numbered as parties expect it."""

    def __init__(self, run: bytes, transport: Transport) -> None:
        self._run = run
        self._transport = transport
        self._n_asked: Counter[str] = Counter()

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """One exchange with the parties asked."""
        self._n_asked.update(requests.keys())
        wrapped = {
            party: encode(RunRequest(self._run, self._n_asked[party], memoryview(data)))
            for party, data in requests.items()
        }
        return self._transport.exchange(wrapped, may_lose=may_lose)


def _assign(order: AlignRows | TrainVertical | PredictVertical) -> dict[str, AlignmentRole]:
    roles = {
        party: AlignmentRole(data=data, peers=tuple(peer for peer in order.data if peer != party))
        for party, data in order.data.items()
    }
    if isinstance(order, TrainVertical):
        role = roles[order.label_party]
        roles[order.label_party] = replace(role, label=order.label, weight=order.weight)
    return roles


def _describe(common: CommonRows, alignment: str) -> Alignment:
    return Alignment(
        n_common=common.n_common,
        n_rows=dict(common.n_rows),
        n_duplicates=dict(common.n_left_out),
        id=alignment,
    )
