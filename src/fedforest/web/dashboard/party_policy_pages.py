"""A party's policy: the file in an editor, checked while it is written, and what would hold."""

import hashlib
import logging
import math
from typing import Any

import msgspec
from starlette.responses import RedirectResponse, Response

from fedforest.errors import FederationError
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import details as shown_on_demand
from fedforest.runtime.event_log import log_event
from fedforest.runtime.party.policy import FILE_NAME, Policy, PolicyFile, PolicyText
from fedforest.runtime.party.policy_template import TEMPLATE, explain_rules
from fedforest.runtime.recovery.run_store import write_file
from fedforest.web.dashboard.layout import as_lines, labelled, notice, show_page, show_part
from fedforest.web.dashboard.visits import Refused, Visit

_LONGEST = 100_000
_LOG = logging.getLogger(__name__)


def show_policy(visit: Visit) -> Response:
    """Show the editor."""
    return _show(visit, _read(visit) or TEMPLATE)


def check_policy(visit: Visit) -> Response:
    """Say what is wrong with the text, or what would hold."""
    return show_part(_describe(visit, _text_of(visit)))


def save_policy(visit: Visit) -> Response:
    """Write the file, unless it is wrong, or was changed elsewhere meanwhile."""
    text = _text_of(visit)
    if visit.form.get("was") != _digest(_read(visit)):
        told = (
            "the file was changed elsewhere since you loaded it; copy your text and load it again"
        )
        return _show(visit, text, trouble=told)
    try:
        PolicyText(text)
    except FederationError as error:
        return _show(visit, text, trouble=str(error))
    write_file(visit.site.home / FILE_NAME, text.encode())
    log_event(_LOG, "policy written", severity=logging.WARNING, by="dashboard")
    return RedirectResponse("/policy?saved=1", 303)


def _read(visit: Visit) -> str:
    path = visit.site.home / FILE_NAME
    try:
        return path.read_bytes().decode() if path.exists() else ""
    except UnicodeDecodeError:
        raise Refused(422, f"{path} is no text in UTF-8; save it as such") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of(visit: Visit) -> str:
    return visit.form.get("text", "").replace("\r\n", "\n")[:_LONGEST]


def _show(visit: Visit, text: str, trouble: str = "") -> Response:
    box = element(
        "textarea",
        as_lines(text),
        name="text",
        id="text",
        rows=30,
        spellcheck="false",
        wrap="off",
        maxlength=_LONGEST,
    )
    may = "order" in visit.session.scopes
    save = element("button", "Save the policy", type="submit", class_="main-button")
    form = element(
        "form",
        element("input", type="hidden", name="by", value=visit.session.form_token),
        element("input", type="hidden", name="was", value=_digest(_read(visit))),
        labelled(
            "policy.toml", box, "A # at the beginning of a line: its default holds.", for_="text"
        ),
        element("div", save, class_="actions") if may else notice("This token may only look."),
        method="post",
        action="/policy",
        data_check="/policy/check",
        data_target="checked",
    )
    beside = element("div", _describe(visit, text), id="checked", aria_live="polite")
    return show_page(
        visit,
        "Policy",
        notice(trouble, kind="bad") if trouble else None,
        notice("Saved. It holds for whatever begins from now on.")
        if visit.query("saved")
        else None,
        element("div", element("section", form), element("section", beside), class_="two"),
        _explain(),
        lead="What others may do with this party's data. The party itself enforces it.",
        status=422 if trouble else 200,
    )


def _describe(visit: Visit, text: str) -> list[Child]:
    try:
        policy = PolicyText(text)
    except FederationError as error:
        return [notice(str(error), kind="bad")]
    names = sorted({*visit.site.catalogue.entries.names(), *policy.named()})
    present = PolicyFile(visit.site.home)
    told: list[Child] = [notice("No mistakes. What would hold:")]
    return [*told, *(_tabulate(name, policy, present) for name in [*names, ""])]


def _tabulate(name: str, policy: Policy, present: Policy) -> Markup:
    rules = _plain(policy, name)
    try:
        before: dict[str, Any] = _plain(present, name)
    except FederationError:
        before = {}
    changed = {rule for rule, value in rules.items() if before.get(rule) != value}
    rows: list[list[Child]] = [
        [
            rule,
            element("strong", _say(value)) if rule in changed else _say(value),
            _say(before.get(rule)) if rule in changed else "",
        ]
        for rule, value in rules.items()
    ]
    rows.sort(key=lambda row: str(row[0]) not in changed)
    title = name or "any other data set"
    more = f" ({len(changed)} changed)" if changed else ""
    shown = table(["Rule", "Would be", "Is now"], rows)
    summary = element("summary", f"{title}{more}")
    return element("details", summary, shown, data_key=title, open=bool(changed))


def _plain(policy: Policy, name: str) -> dict[str, Any]:
    rules: dict[str, Any] = msgspec.to_builtins(policy.rules(name))
    return {rule: None if value == math.inf else value for rule, value in rules.items()}


def _say(value: object) -> str:
    if value is None:
        return "no limit"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and value < 2**60 else str(value)


def _explain() -> Markup:
    rows: list[list[Child]] = [
        [element("code", rule), example, text] for rule, example, text in explain_rules()
    ]
    shown = table(["Rule", "Such as", "What it says"], rows)
    return element("section", shown_on_demand("What each rule says", shown))
