"""What only the coordinator has: members, their certificates and releases, and open ports."""

import time
from datetime import UTC, datetime
from pathlib import Path

from fedforest.errors import FederationError
from fedforest.release import __version__
from fedforest.runtime.coordinator.home import describe_members
from fedforest.runtime.doctor.certificates import Clock
from fedforest.runtime.doctor.findings import Diagnoses, good, problem, warning
from fedforest.runtime.membership.members import Membership
from fedforest.runtime.membership.presence import read_presence


def examine_coordinator(home: Path, clock: Clock = time.time) -> Diagnoses:
    """Examine whether the coordinator runs, and its members, if their certificates are its own."""
    present = read_presence(home)
    if present is None:
        yield problem(
            "coordinator",
            "the coordinator is not running",
            "without it there is no run and no prediction, and no certificate is renewed",
            f"fedforest coordinator start --home {home}",
        )
    else:
        yield good("coordinator", f"it runs; connected: {', '.join(present.connected) or 'none'}")
        for party, release in sorted(present.releases.items()):
            if release != __version__:
                yield warning(
                    "version",
                    f"party {party!r} has release {release or 'of before 0.1.0'}, the coordinator "
                    f"has {__version__}",
                    "mistakes that one release has mended may stay in the other",
                    "have the same release installed at all roles",
                )
    if Membership.is_in(home):
        yield from _examine_members(home, clock)


def _examine_members(home: Path, clock: Clock) -> Diagnoses:
    try:
        described = describe_members(home)
    except FederationError as error:
        yield problem("members", str(error), "nobody can join or renew", "restore it from a copy")
        return
    now = datetime.fromtimestamp(clock(), UTC)
    for member in described["members"]:
        who = f"{member['role']} {member['name']!r}"
        if datetime.fromisoformat(member["expires"]) <= now:
            yield warning(
                "members",
                f"the certificate of {who} expired at {member['expires'][:16]}",
                "an expired certificate cannot be renewed",
                f"fedforest coordinator invite {member['name']}"
                f"{' --user' if member['role'] == 'user' else ''} --home {home}",
            )
    yield good(
        "members",
        f"{len(described['members'])} members, {len(described['revoked'])} revoked",
    )
