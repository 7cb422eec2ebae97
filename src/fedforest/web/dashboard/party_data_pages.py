"""A party's data sets: where they come from, what is in them, what is left of their budget."""

import math

from starlette.responses import Response

from fedforest.errors import FederationError
from fedforest.reports.markup import Child, Markup, element, table
from fedforest.reports.page import fact_list, section
from fedforest.runtime.membership.homes import PARTY_FILE, PartySettings, read_settings
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.party.catalogue.profile import ColumnProfile, profile_columns
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.spending import Budgets
from fedforest.web.dashboard.layout import badge, notice, show_page, show_part
from fedforest.web.dashboard.visits import Refused, Visit

_LONGEST_VALUE = 40


def show_data_sets(visit: Visit) -> Response:
    """Show all data sets, and whom the party trusts."""
    catalogue = visit.site.catalogue
    rows = [_describe_entry(visit, name) for name in sorted(catalogue.entries.names())]
    headings = ["Data set", "Comes from", "Columns", "Rows are known by", "ε spent", "ε left"]
    listed: Child = table(headings, rows)
    if not rows:
        listed = element("p", "None yet: fedforest party data add NAME FILE --home ...")
    return show_page(
        visit,
        f"Data of {visit.site.name}",
        section("Data sets", listed),
        _list_trust(visit),
        lead="What is on this page stays in this party's folder; nothing of it is sent.",
    )


def _describe_entry(visit: Visit, name: str) -> list[Child]:
    catalogue = visit.site.catalogue
    link = element("a", name, href=f"/data/{name}")
    try:
        entry, schema = catalogue.entries.read(name), catalogue.schema(name) or {}
        spent, left = _budget(visit, name)
    except FederationError as error:
        return [link, str(error), "", "", "", ""]
    known_by = ", ".join(entry.id) or "their order"
    return [link, entry.place, f"{len(schema):,}", known_by, spent, left]


def _budget(visit: Visit, name: str) -> tuple[str, str]:
    """Return epsilon spent on the labels of a data set, and what its ceiling leaves."""
    budgets, policy = Budgets(visit.site.home), PolicyFile(visit.site.home)
    ledger = budgets.read(name, budgets.ceiling(name, policy))
    spent = "without noise" if math.isinf(ledger.spent) else f"{ledger.spent:.4g}"
    left = "no ceiling" if math.isinf(ledger.remaining) else f"{max(0.0, ledger.remaining):.4g}"
    return spent, left


def _list_trust(visit: Visit) -> Markup:
    home = visit.site.home
    pins = Pins(home, read_settings(home, PARTY_FILE, PartySettings).pins)
    rows: list[list[Child]] = [[name, element("code", pins[name])] for name in sorted(pins)]
    missing = sorted(pins.peers() - set(pins))
    rows += [[name, badge("not pinned", "warn")] for name in missing]
    told: Child = table(["Party", "Fingerprint that this party trusts"], rows)
    if not rows:
        told = element("p", "None is pinned, and no run has named another party yet.")
    return section("Other parties", told)


def show_data_set(visit: Visit) -> Response:
    """Show a data set; its profile comes when the table has been read."""
    name = _name_of(visit)
    entry = visit.site.catalogue.entries.read(name)
    spent, left = _budget(visit, name)
    facts: list[tuple[str, Child]] = [
        ("Comes from", entry.place),
        ("Rows are known by", ", ".join(entry.id) or "their order"),
        ("ε spent on labels", spent),
        ("ε left", left),
    ]
    path = f"/data/{name}/profile"
    link = element("a", "Reading the table …", href=path, class_="quiet")
    waiting = element("div", element("section", link), data_load=path)
    return show_page(
        visit, name, section("What it is", fact_list(facts)), waiting, trail=[("/data", "Data")]
    )


def _name_of(visit: Visit) -> str:
    name = visit.path("name")
    if not visit.site.catalogue.entries.has(name):
        raise Refused(404, "there is no such data set")
    return name


def show_profile(visit: Visit) -> Response:
    """Show the columns of a data set, and what the policy says of each."""
    name = _name_of(visit)
    data = visit.site.catalogue.read(name)
    rules = PolicyFile(visit.site.home).rules(name)
    profile = profile_columns(data)
    hidden = rules.hidden([column.name for column in profile])
    rows = [_describe_column(column, is_hidden=column.name in hidden) for column in profile]
    headings = ["Column", "Kind", "Distinct", "Missing", "Values", "Runs may see it"]
    parts = [
        element("p", f"{data.n_rows:,} rows."),
        table(headings, rows),
        notice("Values are shown to you alone.") if rows else None,
    ]
    shown = section("Profile", parts)
    return show_part(shown) if visit.is_partial else show_page(visit, name, shown)


def _describe_column(column: ColumnProfile, *, is_hidden: bool) -> list[Child]:
    if column.smallest is not None and column.mean is not None:
        values = f"{column.smallest:g} to {column.largest:g}, mean {column.mean:g}"
    else:
        values = ", ".join(f"{_shorten(value)} ({count:,})" for value, count in column.top)
    seen = badge("no", "warn") if is_hidden else badge("yes", "")
    missing = f"{column.missing_share:.1%}"
    return [column.name, column.kind, f"{column.n_distinct:,}", missing, values, seen]


def _shorten(value: object) -> str:
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
