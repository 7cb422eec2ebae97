"""The coordinator's folder for its operator's commands: create it, list members, find addresses."""

import json
from pathlib import Path
from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.runtime.membership.homes import COORDINATOR_FILE, CoordinatorSettings, read_settings
from fedforest.runtime.membership.members import Membership
from fedforest.runtime.membership.presence import read_presence
from fedforest.runtime.recovery.run_store import write_file
from fedforest.transport.enrolment import split_address

_EVERYWHERE = {"0.0.0.0", "::"}


def make_coordinator(home: Path, federation: str, settings: CoordinatorSettings) -> None:
    """Create a federation in a folder."""
    _public(settings.address, settings.host)
    _public(settings.enrolment, settings.host)
    if (home / COORDINATOR_FILE).exists():
        raise ConfigurationError(f"{home} is a coordinator's already; choose another folder")
    Membership.create(home, federation)
    lines = [
        "# written by `fedforest coordinator init`; addresses to listen at",
        f"address = {json.dumps(settings.address)}",
        f"enrolment = {json.dumps(settings.enrolment)}",
        "# the name by which others reach this machine; empty: as in the addresses",
        f"host = {json.dumps(settings.host)}",
        "# the life of certificates; holders renew them when a third of it is left",
        f"certificate_days = {settings.certificate_days}",
    ]
    write_file(home / COORDINATOR_FILE, ("\n".join(lines) + "\n").encode())


def load_members(home: Path) -> Membership:
    """Load the members of the federation in a folder."""
    if not Membership.is_in(home):
        raise ConfigurationError(
            f"{home} holds no federation; make one with `fedforest coordinator init`"
        )
    return Membership(home)


def public_addresses(home: Path) -> tuple[str, str]:
    """Return the addresses, as others reach them, for enrolment and for members."""
    settings = read_settings(home, COORDINATOR_FILE, CoordinatorSettings)
    return _public(settings.enrolment, settings.host), _public(settings.address, settings.host)


def describe_members(home: Path) -> dict[str, Any]:
    """Describe the members, which of them are connected now, and which were revoked."""
    members, present = load_members(home), read_presence(home)
    connected = set() if present is None else set(present.connected)
    return {
        "federation": members.federation,
        "running": present is not None,
        "members": [
            {
                "role": member.role,
                "name": member.name,
                "user_role": member.user_role if member.role == "user" else None,
                "since": member.since,
                "expires": member.expires,
                "connected": member.role == "party" and member.name in connected,
            }
            for member in members.members()
        ],
        "revoked": sorted(map(str, members.revoked())),
    }


def _public(address: str, host: str) -> str:
    own, port = split_address(address)
    if not host and own in _EVERYWHERE:
        raise ConfigurationError(
            f"{address} is no address that others can connect to; say with --host by which name "
            "they reach this machine"
        )
    name = host or own
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
