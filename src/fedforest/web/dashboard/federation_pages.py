"""The page of the federation: who belongs to it, who is there, what the coordinator's state is."""

from datetime import datetime

from starlette.responses import Response

from fedforest.reports.formats import format_bytes, format_seconds, format_time
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import fact_list, section
from fedforest.runtime.messages.orders import ShowStatus
from fedforest.runtime.messages.status import FederationStatus, MemberStatus
from fedforest.web.dashboard.layout import badge, show_page, show_part
from fedforest.web.dashboard.visits import Visit

_SOON_DAYS = 7.0


def show_federation(visit: Visit) -> Response:
    """Show parties, users and the coordinator, as far as the user may see them."""
    status = visit.site.door(visit).ask(ShowStatus(), FederationStatus)
    parts = [_list_parties(status)]
    if status.users is not None:
        parts.append(_list_users(status))
    parts.append(_describe_coordinator(status))
    if visit.is_partial:
        return show_part(parts)
    live = element("div", parts, id="members", data_refresh="/federation", data_every="5")
    return show_page(visit, "Federation", live)


def _list_parties(status: FederationStatus) -> Markup:
    if not status.parties:
        return section("Parties", element("p", "No party has joined yet."))
    rows: list[list[Child]] = []
    for party in status.parties:
        there = badge("online", "") if party.connected else badge("away", "warn")
        rows.append([party.name, there, party.release or "-", _expiry(party, status.now)])
    return section("Parties", table(["Party", "State", "Release", "Certificate until"], rows))


def _list_users(status: FederationStatus) -> Markup:
    rows = [[user.name, user.user_role, _expiry(user, status.now)] for user in status.users or ()]
    return section("Users", table(["User", "Role", "Certificate until"], rows))


def _expiry(member: MemberStatus, now: float) -> Child:
    if member.expires is None:
        return "-"
    days = (datetime.fromisoformat(member.expires).timestamp() - now) / 86400.0
    told = member.expires[:16].replace("T", " ")
    if days > _SOON_DAYS:
        return told
    return [told, " ", badge("expired" if days < 0 else f"{days:.0f} days", "warn")]


def _describe_coordinator(status: FederationStatus) -> Markup:
    facts: list[tuple[str, Child]] = [
        ("Release", f"{status.release}, protocol version {status.protocol_version}"),
        (
            "Up",
            f"since {format_time(status.started)}, {format_seconds(status.now - status.started)}",
        ),
        ("Queue", f"{status.n_queued} runs wait or are worked on"),
    ]
    if status.certificate_expires is not None:
        facts.append(("Certificate until", status.certificate_expires[:16].replace("T", " ")))
    if status.disk_free_bytes is not None and status.disk_bytes is not None:
        free = f"{format_bytes(status.disk_free_bytes)} free of {format_bytes(status.disk_bytes)}"
        facts.append(("Disk", free))
    return section("Coordinator", fact_list(facts))
