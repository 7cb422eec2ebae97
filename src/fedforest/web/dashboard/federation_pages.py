"""The page of the federation: who belongs to it, who is there, what the coordinator's state is."""

from datetime import datetime

from starlette.responses import RedirectResponse, Response

from fedforest.reports.formats import format_bytes, format_seconds, format_time
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import fact_list, section
from fedforest.runtime.membership.user_roles import USER_ROLES
from fedforest.runtime.messages.orders import GrantRole, InviteMember, RevokeMember, ShowStatus
from fedforest.runtime.messages.results import InvitationMade, MembersChanged
from fedforest.runtime.messages.status import FederationStatus, MemberStatus
from fedforest.web.dashboard.layout import (
    action_button,
    badge,
    code_block,
    labelled,
    notice,
    select,
    show_page,
    show_part,
)
from fedforest.web.dashboard.visits import Visit

_SOON_DAYS = 7.0


def show_federation(visit: Visit) -> Response:
    """Show parties, users and the coordinator, as far as the user may see them."""
    status = visit.site.door(visit).ask(ShowStatus(), FederationStatus)
    parts: list[Markup | None] = [_list_parties(visit, status)]
    if status.users is not None:
        parts += [_list_users(visit, status), _list_revoked(status)]
    parts.append(_describe_coordinator(status))
    if visit.is_partial:
        return show_part(parts)
    live = element("div", parts, id="members", data_refresh="/federation", data_every="5")
    is_operator = status.users is not None and "order" in visit.session.scopes
    return show_page(visit, "Federation", live, _invitation_form(visit) if is_operator else None)


def _list_parties(visit: Visit, status: FederationStatus) -> Markup:
    if not status.parties:
        return section("Parties", element("p", "No party has joined yet."))
    rows: list[list[Child]] = []
    for party in status.parties:
        there = badge("online", "") if party.connected else badge("away", "warn")
        far = party.latency_seconds
        latency = "-" if far is None else f"{1000.0 * far:.1f} ms"
        row: list[Child] = [party.name, there, latency, party.release or "-"]
        row.append(_expiry(party, status.now))
        if status.users is not None and "order" in visit.session.scopes:
            row.append(_revoke_button(visit, party.name))
        rows.append(row)
    headings = ["Party", "State", "There and back", "Release", "Certificate until"]
    return section("Parties", table(_with_actions(headings, rows), rows))


def _list_users(visit: Visit, status: FederationStatus) -> Markup:
    rows: list[list[Child]] = []
    for user in status.users or ():
        row: list[Child] = [user.name, user.user_role, _expiry(user, status.now)]
        if "order" in visit.session.scopes:
            row[1] = _choose_role(visit, user)
            row.append(_revoke_button(visit, user.name))
        rows.append(row)
    return section("Users", table(_with_actions(["User", "Role", "Certificate until"], rows), rows))


def _with_actions(headings: list[str], rows: list[list[Child]]) -> list[str]:
    return [*headings, "May be"] if rows and len(rows[0]) > len(headings) else headings


def _list_revoked(status: FederationStatus) -> Markup | None:
    if not status.revoked:
        return None
    listed = element("ul", [element("li", name) for name in status.revoked], class_="plain")
    return section("Revoked, for good", listed)


def _revoke_button(visit: Visit, name: str) -> Markup:
    text = f"Revoke {name} for good? Its connections are cut, and it cannot be invited again."
    return action_button(
        visit,
        "/federation/revoke",
        "revoked",
        fields={"name": name},
        class_="bad-button small",
        confirm=text,
    )


def _choose_role(visit: Visit, user: MemberStatus) -> Markup:
    choice = element(
        "select",
        [
            element("option", role, value=role, selected=role == user.user_role)
            for role in USER_ROLES
        ],
        name="user_role",
        aria_label=f"role of {user.name}",
    )
    return element(
        "form",
        element("input", type="hidden", name="by", value=visit.session.form_token),
        element("input", type="hidden", name="name", value=user.name),
        choice,
        element("button", "change", type="submit", class_="small"),
        method="post",
        action="/federation/grant",
        class_="inline",
    )


def _invitation_form(visit: Visit) -> Markup:
    kinds = [("party", "a party"), *((role, f"a user: {role}") for role in USER_ROLES)]
    name = element("input", name="name", id="invited", required=True, maxlength=64)
    hours = [("1", "an hour"), ("24", "a day"), ("168", "a week")]
    form = element(
        "form",
        element("input", type="hidden", name="by", value=visit.session.form_token),
        element(
            "div",
            labelled("Name", name, for_="invited"),
            labelled("Who it is", select("kind", kinds), for_="kind"),
            labelled("Good for", select("hours", hours, "24"), for_="hours"),
            class_="fields",
        ),
        element("button", "Make an invitation", type="submit"),
        method="post",
        action="/federation/invite",
    )
    return section("Invite", form)


def invite(visit: Visit) -> Response:
    """Show the token of a new invitation, once."""
    kind, name = visit.form.get("kind", ""), visit.form.get("name", "").strip()[:64]
    hours = visit.form.get("hours", "24")
    order = InviteMember(
        role="party" if kind == "party" else "user",
        name=name,
        user_role="scientist" if kind == "party" else kind[:32],
        valid_seconds=3600.0 * (int(hours) if hours in ("1", "24", "168") else 24),
    )
    made = visit.site.door(visit).ask(order, InvitationMade)
    command = "fedforest party join --home FOLDER" if kind == "party" else "fedforest join"
    return show_page(
        visit,
        f"Invitation of {name}",
        notice("It is shown once. Send it by a way that others do not read."),
        element("div", code_block(made.token, "token"), class_="wrap"),
        element("p", [f"It lets one newcomer in, once. {name} runs, and pastes it: "]),
        code_block(command, "command"),
        trail=[("/federation", "Federation")],
    )


def revoke(visit: Visit) -> Response:
    """Revoke a member for good."""
    order = RevokeMember(visit.form.get("name", "")[:64])
    visit.site.door(visit).ask(order, MembersChanged)
    return RedirectResponse("/federation", 303)


def grant(visit: Visit) -> Response:
    """Change the role of a user."""
    name, role = visit.form.get("name", "")[:64], visit.form.get("user_role", "")[:32]
    visit.site.door(visit).ask(GrantRole(name=name, user_role=role), MembersChanged)
    return RedirectResponse("/federation", 303)


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
