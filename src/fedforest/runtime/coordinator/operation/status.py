"""The state of the federation for `fedforest status`: members, queue, disk, certificates.

Who is connected and how long the queue is helps every user; names of other users, expiries of
certificates and the disk are for operators.
"""

import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from fedforest.release import __version__
from fedforest.runtime.membership.members import Member
from fedforest.runtime.messages.results import RunState
from fedforest.runtime.messages.status import FederationStatus, MemberStatus, WaitingRun
from fedforest.transport.frames import PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class StatusBoard:
    """What a coordinator knows of its federation, asked anew for every answer.

    Where certificates were made elsewhere there are no members to list: parties are those that are
    connected.
    """

    home: Path
    releases: Callable[[], Mapping[str, str]]  # of connected parties
    members: Callable[[], Collection[Member]] = tuple
    revoked: Callable[[], Collection[object]] = tuple
    expires: Callable[[], datetime | None] = lambda: None  # the coordinator's own certificate
    latencies: Callable[[], Mapping[str, float]] = dict  # of connected parties, in seconds
    started: float = field(default_factory=time.time)

    def describe(
        self, queued: list[RunState], is_shown: Callable[[bytes], bool], *, in_full: bool
    ) -> FederationStatus:
        """Describe the state to an operator, `in_full`, or to another user."""
        status = FederationStatus(
            release=__version__,
            protocol_version=PROTOCOL_VERSION,
            now=time.time(),
            started=self.started,
            parties=self._parties(in_full=in_full),
            runs=[
                WaitingRun(each.run, each.name, each.user, each.state, each.doing)
                for each in queued
                if is_shown(bytes.fromhex(each.run))
            ],
            n_queued=len(queued),
        )
        return self._complete(status) if in_full else status

    def _complete(self, status: FederationStatus) -> FederationStatus:
        """Add what only operators see."""
        disk, expires = shutil.disk_usage(self.home), self.expires()
        return msgspec.structs.replace(
            status,
            users=[
                MemberStatus(each.name, user_role=each.user_role, expires=each.expires)
                for each in self.members()
                if each.role == "user"
            ],
            revoked=sorted(map(str, self.revoked())),
            certificate_expires=None if expires is None else expires.isoformat(),
            disk_free_bytes=disk.free,
            disk_bytes=disk.total,
        )

    def _parties(self, *, in_full: bool) -> list[MemberStatus]:
        releases, latencies = self.releases(), self.latencies()
        expires = {each.name: each.expires for each in self.members() if each.role == "party"}
        return [
            MemberStatus(
                name,
                connected=name in releases,
                release=releases.get(name, ""),
                expires=expires.get(name) if in_full else None,
                latency_seconds=latencies.get(name),
            )
            for name in sorted({*releases, *expires})
        ]
