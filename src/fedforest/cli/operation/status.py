"""`fedforest status`: who is connected, what waits, and, for operators, what will soon be short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from fedforest.cli.terminal import AsJson, Profile, Terminal
from fedforest.printable import printable_lines
from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_bytes, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedforest.runtime.messages.status import FederationStatus, MemberStatus


def status(profile: Profile = "", as_json: AsJson = False) -> None:
    """Show who is connected with which release, and the queue; operators also see members and disk.

    Example: fedforest status

    Example: fedforest status --json
    """
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.homes import load_credentials
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import ShowStatus
    from fedforest.runtime.messages.status import FederationStatus

    home = choose_profile(profile)
    with Federation(home) as federation:
        told = federation.ask(ShowStatus(), FederationStatus)
    own_expires = load_credentials(home).expires.isoformat()
    if as_json:
        described = {"own_certificate_expires": own_expires}
        Terminal(as_json).show_json(_as_object(told) | described)
        return
    for line in _describe(told):
        typer.echo(printable_lines(line))
    typer.echo(f"your certificate is good until {_moment(own_expires)}")


def _as_object(value: Any) -> Any:
    """Return structs, which travel as arrays, by the names of their fields."""
    import msgspec

    if isinstance(value, msgspec.Struct):
        return {name: _as_object(part) for name, part in msgspec.structs.asdict(value).items()}
    return [_as_object(part) for part in value] if isinstance(value, list) else value


def _describe(told: FederationStatus) -> Iterator[str]:
    yield (
        f"coordinator: release {told.release}, protocol {told.protocol_version}, since "
        f"{format_time(told.started)}"
    )
    for party in told.parties:
        yield f"party {_describe_member(party, is_party=True)}"
    waiting = "run waits or is worked on" if told.n_queued == 1 else "runs wait or are worked on"
    yield f"queue: {told.n_queued} {waiting}"
    for run in told.runs:
        yield (
            f"  {run.run[:SHORT_ID]}  {run.state:8} {run.user.rpartition('/')[2]:12} {run.name}  "
            f"{run.doing}".rstrip()
        )
    for user in told.users or ():
        yield f"user {_describe_member(user, is_party=False)}"
    for identity in told.revoked or ():
        yield f"revoked {identity}"
    if told.disk_free_bytes is not None and told.disk_bytes is not None:
        yield (
            f"disk of the coordinator: {format_bytes(told.disk_free_bytes)} of "
            f"{format_bytes(told.disk_bytes)} free"
        )
    if told.certificate_expires is not None:
        yield f"certificate of the coordinator: until {_moment(told.certificate_expires)}"


def _describe_member(member: MemberStatus, *, is_party: bool) -> str:
    parts = [member.name]
    if is_party:
        parts.append("connected" if member.connected else "NOT CONNECTED")
    if member.release:
        parts.append(f"release {member.release}")
    if member.user_role:
        parts.append(member.user_role)
    if member.expires is not None:
        parts.append(f"certificate until {_moment(member.expires)}")
    return ", ".join(parts)


def _moment(text: str) -> str:
    """Return the minute of a moment in ISO's form."""
    return text[:16].replace("T", " ") + " UTC"
