"""The state of a running role that its metrics show: read anew for every scrape."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fedforest.release import __version__
from fedforest.runtime.meters import Metric

GAUGES = {
    "fedforest_info": Metric(
        "1, with the release and the role of the process.", ("release", "role")
    ),
    "fedforest_start_time_seconds": Metric("When the process began, in seconds since 1970."),
    "fedforest_certificate_expiry_time_seconds": Metric(
        "When the certificate of the role expires, in seconds since 1970."
    ),
    "fedforest_disk_free_bytes": Metric("Free bytes on the disk of the role's folder."),
    "fedforest_disk_bytes": Metric("Bytes of the disk of the role's folder."),
    "fedforest_party_connected": Metric(
        "Whether a party of the federation is connected (coordinator).", ("party",)
    ),
    "fedforest_runs": Metric("Runs that wait or are worked on (coordinator).", ("state",)),
    "fedforest_coordinator_connected": Metric("Whether the coordinator is connected (party)."),
}


class Reading(NamedTuple):
    """One value of a gauge, with the values of its labels."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleState:
    """What both roles tell of themselves, and what one role adds."""

    role: str
    home: Path
    expires: Callable[[], datetime]
    readings: Callable[[], Iterable[Reading]] = tuple
    why_not_ready: Callable[[], str] = str  # empty: ready
    started: float = field(default_factory=time.time)

    def read(self) -> Iterator[Reading]:
        """Read all gauges of the role."""
        disk = shutil.disk_usage(self.home)
        yield Reading("fedforest_info", 1.0, (__version__, self.role))
        yield Reading("fedforest_start_time_seconds", self.started)
        expires = self.expires().timestamp()
        yield Reading("fedforest_certificate_expiry_time_seconds", expires)
        yield Reading("fedforest_disk_free_bytes", disk.free)
        yield Reading("fedforest_disk_bytes", disk.total)
        yield from self.readings()
