"""The two processes of a federation, coordinator and party; each runs until `stop` is set."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fedforest.errors import ConfigurationError
from fedforest.kernels.compiled.preparation import prepare
from fedforest.kernels.compiled.progress import telling
from fedforest.limits import read_memory
from fedforest.runtime.compute.clusters import opened_cluster
from fedforest.runtime.coordinator.home import public_addresses
from fedforest.runtime.coordinator.operation.revocations import RevocationNotices
from fedforest.runtime.coordinator.operation.status import StatusBoard
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.disclosure.egress_ledger import EgressLedger
from fedforest.runtime.event_log import log_event
from fedforest.runtime.federation import start_workers
from fedforest.runtime.membership.homes import (
    COORDINATOR_FILE,
    PARTY_FILE,
    CoordinatorSettings,
    PartySettings,
    load_credentials,
    load_keys,
    read_settings,
)
from fedforest.runtime.membership.members import Membership
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.membership.presence import FolderPresence, Present
from fedforest.runtime.membership.renewal import Renewal, noting
from fedforest.runtime.membership.stewardship import Stewardship
from fedforest.runtime.monitoring.gauges import Reading, RoleState
from fedforest.runtime.monitoring.server import MetricsAddress, answering
from fedforest.runtime.party.catalogue.batches import COPIES, remove_copies
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.mapped_memory import MappedMemory
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.service import PartyService
from fedforest.runtime.recovery.backup import read_restored, settle
from fedforest.transport.tls import refuse_older_tls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    from fedforest.runtime.membership.user_roles import UserRole
    from fedforest.transport.enrolment_server import EnrolmentServer
    from fedforest.transport.grpc.coordinator import GrpcHub
    from fedforest.transport.grpc.party import GrpcLink
    from fedforest.transport.identity import Identity
    from fedforest.transport.tls import Credentials

BESIDE_CLUSTER = 2**30  # memory limit of a party whose tables a cluster reads; 256 MB of a table
_LOG = logging.getLogger(__name__)
# How soon a revocation cuts calls under way; new ones are refused at once. Also, a signal that
# reached another thread, as it may while the process is stopped, is handled only when the main
# thread wakes up.
_TICK_SECONDS = 0.25


class ServedCoordinator(NamedTuple):
    """A coordinator that runs, for what is served beside it in its process."""

    home: Path
    federation: str
    service: CoordinatorService
    users: Callable[[], Mapping[str, UserRole]] | None  # None: unknown


def serve_coordinator(
    home: Path,
    stop: threading.Event,
    say: Callable[[str], None],
    metrics: MetricsAddress | None = None,
    beside: Callable[[ServedCoordinator], AbstractContextManager[str]] | None = None,
) -> None:
    """Accept parties and users, answer requests, and resume unfinished runs."""
    refuse_older_tls()  # before gRPC is there
    from fedforest.transport.grpc.channel import ChannelLimits  # noqa: PLC0415 - grpc is an extra
    from fedforest.transport.grpc.connections import (  # noqa: PLC0415 - grpc is an extra
        raise_descriptor_limit,
    )
    from fedforest.transport.grpc.coordinator import GrpcHub  # noqa: PLC0415 - grpc is an extra

    raise_descriptor_limit()
    settings = read_settings(home, COORDINATOR_FILE, CoordinatorSettings)
    members = Membership(home, settings.certificate_days) if Membership.is_in(home) else None
    with (
        FolderPresence(home) as presence,
        start_workers(settings.threads) as workers,
        _prepared_kernels(),
    ):
        service: CoordinatorService | None = None

        def serve_client(identity: object, request: bytes):  # type: ignore[no-untyped-def] # as the hub wants it
            assert service is not None
            return service.serve_by_turns(identity, request)

        hub = GrpcHub(
            load_credentials(home),
            settings.address,
            serve_client=serve_client,
            renew=None if members is None else members.renew,
            is_revoked=(lambda _: False) if members is None else members.is_revoked,
            limits=ChannelLimits(patience_seconds=settings.patience_seconds),
        )
        service = CoordinatorService(
            home,
            hub,
            workers,
            wait_seconds=settings.patience_seconds,
            members=None if members is None else members.parties,
            users=None if members is None else members.users,
            limits=settings.limits,
            board=_make_board(home, hub, members),
            stewardship=None
            if members is None
            else Stewardship(members, partial(public_addresses, home)),
            closed=lambda: _why_closed(home, notices),
        )
        notices = None if members is None else RevocationNotices(hub, hub.connected, members)
        watch = _Gate(hub, members)
        watch.look()  # revoked members must never get in, not even at the start
        state = _state_of_coordinator(home, hub, members, service)
        served = ServedCoordinator(
            home,
            load_credentials(home).identity.federation,
            service,
            None if members is None else members.users,
        )
        with (
            hub,
            _enrolment(home, settings, members) as enrolment,
            answering(metrics, state) as at,
            nullcontext("") if beside is None else beside(served) as told,
        ):
            service.start()
            if notices is not None:
                notices.start()
            _say_metrics(at, say)
            if told:
                say(told)
            say(_describe(hub, enrolment))
            renewal = None if members is None else _renew_own(home, members, hub, enrolment)
            while not stop.wait(_TICK_SECONDS):
                presence.tell(watch.look())
                if renewal is not None:
                    renewal.look()
            if notices is not None:
                notices.close()
            service.close()


def _why_closed(home: Path, notices: RevocationNotices | None) -> str:
    """Say why no user is let in: a restored folder may have forgotten who was revoked."""
    restored = read_restored(home)
    if restored is None:
        return ""
    unheard = [] if notices is None else notices.unheard()
    if not unheard and notices is not None:
        settle(home)
        log_event(_LOG, "restored folder settled", severity=logging.WARNING)
        return ""
    return (
        f"this coordinator was restored from a copy made {restored.moment} and waits to hear who "
        f"was revoked since, from {', '.join(unheard) or 'its operator'}; start them, or decide "
        "with `fedforest coordinator settle`"
    )


def _say_metrics(address: str, say: Callable[[str], None]) -> None:
    if address:
        say(f"metrics at http://{address}/metrics")


def _state_of_coordinator(
    home: Path, hub: GrpcHub, members: Membership | None, service: CoordinatorService
) -> RoleState:
    """Return what the metrics of a coordinator show."""

    def read() -> Iterator[Reading]:
        connected = set(hub.connected())
        for party in sorted(connected.union(() if members is None else members.parties())):
            yield Reading("fedforest_party_connected", float(party in connected), (party,))
        for state, n_runs in service.n_queued().items():
            yield Reading("fedforest_runs", n_runs, (state,))

    def why_not_ready() -> str:
        return "" if service.is_ready else "the coordinator is starting"

    def expires() -> datetime:
        return load_credentials(home).expires

    return RoleState("coordinator", home, expires, read, why_not_ready)


def _state_of_party(home: Path, link: GrpcLink) -> RoleState:
    """Return what the metrics of a party show."""

    def read() -> Iterator[Reading]:
        yield Reading("fedforest_coordinator_connected", float(link.is_connected))

    def why_not_ready() -> str:
        return "" if link.is_connected else "not connected to the coordinator; see the log"

    def expires() -> datetime:
        return load_credentials(home).expires

    return RoleState("party", home, expires, read, why_not_ready)


def _make_board(home: Path, hub: GrpcHub, members: Membership | None) -> StatusBoard:
    def expires() -> datetime:
        return load_credentials(home).expires

    if members is None:
        return StatusBoard(home, hub.releases, expires=expires, latencies=hub.latencies)
    return StatusBoard(home, hub.releases, members.members, members.revoked, expires, hub.latencies)


class _Gate:
    """Cut off members that were revoked since the last look."""

    def __init__(self, hub: GrpcHub, members: Membership | None) -> None:
        self._hub = hub
        self._members = members
        self._cut: set[Identity] = set()

    def look(self) -> Present:
        """Revoke at the hub; return the connected parties and the revoked members."""
        revoked = set() if self._members is None else self._members.revoked()
        for identity in revoked - self._cut:
            self._hub.revoke(identity)
        self._cut |= revoked
        releases = self._hub.releases()
        return Present(sorted(releases), sorted(map(str, self._cut)), releases)


@contextmanager
def _enrolment(
    home: Path, settings: CoordinatorSettings, members: Membership | None
) -> Iterator[EnrolmentServer | None]:
    """Let newcomers enrol if this coordinator is also the federation's authority."""
    from fedforest.transport.enrolment_server import EnrolmentServer  # noqa: PLC0415 - as its hub

    if members is None:
        yield None
        return
    with EnrolmentServer(home / "tls", settings.enrolment, members.enrol) as server:
        yield server


def _renew_own(
    home: Path, members: Membership, hub: GrpcHub, enrolment: EnrolmentServer | None
) -> Renewal:
    def use(credentials: Credentials) -> None:
        hub.use_credentials(credentials)
        if enrolment is not None:
            enrolment.reload()

    return Renewal(home / "tls", members.renew_own, use)


@contextmanager
def _prepared_kernels() -> Iterator[None]:
    """Compile missing kernels in the background, and log the progress."""
    with telling(lambda text: log_event(_LOG, text)):
        threading.Thread(target=prepare, daemon=True).start()
        yield


def _describe(hub: GrpcHub, enrolment: EnrolmentServer | None) -> str:
    if enrolment is None:
        return f"listening at {hub.address}"
    return f"listening at {hub.address}; newcomers enrol at {enrolment.address}"


class ServedParty(NamedTuple):
    """A party that runs, for what is served beside it in its process."""

    home: Path
    name: str
    memory_limit: int | None


def serve_party(  # noqa: PLR0913, PLR0917 - what a command was told
    home: Path,
    stop: threading.Event,
    say: Callable[[str], None],
    metrics: MetricsAddress | None = None,
    beside: Callable[[ServedParty], AbstractContextManager[str]] | None = None,
    compute: str | None = None,
) -> None:
    """Stay connected to the coordinator and answer its requests; `compute` names a cluster."""
    from fedforest.transport.grpc.party import GrpcLink  # noqa: PLC0415 - grpc is an extra
    from fedforest.transport.grpc.renewal import (  # noqa: PLC0415 - grpc is an extra
        renew_certificate,
    )

    settings = read_settings(home, PARTY_FILE, PartySettings)
    credentials = load_credentials(home)
    identity = credentials.identity
    if identity.role != "party":
        raise ConfigurationError(f"{identity} is no party's certificate; this folder is a party's")
    keys = load_keys(home, identity.name, Pins(home, settings.pins))
    with (
        start_workers(settings.threads) as workers,
        EgressLedger(home, identity.name) as ledger,
        _prepared_kernels(),
        opened_cluster(compute) as make_rows,
    ):
        policy = PolicyFile(home)
        policy.check()
        memory_limit = read_memory(settings.memory_limit)
        remove_copies(home)  # of a process that was killed
        service = PartyService(
            home,
            keys,
            Catalogue(home, memory_limit or (None if compute is None else BESIDE_CLUSTER)),
            workers,
            policy=policy,
            ledger=ledger,
            allocate=MappedMemory(home / COPIES, memory_limit).allocate,
            make_rows=make_rows,
        )
        link = GrpcLink(settings.coordinator, credentials, identity.name, service.answer)
        renewal = Renewal(
            home / "tls",
            noting(ledger, partial(renew_certificate, settings.coordinator)),
            link.use_credentials,
        )
        threading.Thread(target=renewal.keep_on, args=(stop,), daemon=True).start()
        try:
            served = ServedParty(home, identity.name, memory_limit)
            with (
                answering(metrics, _state_of_party(home, link)) as at,
                nullcontext("") if beside is None else beside(served) as told,
            ):
                _say_metrics(at, say)
                if told:
                    say(told)
                say(f"party {identity.name} answers the coordinator at {settings.coordinator}")
                link.run(stop)
        finally:
            service.close()
