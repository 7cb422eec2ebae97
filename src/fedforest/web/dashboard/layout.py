"""The frame of all pages: head, navigation, footer; and the small parts that pages share."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import HTMLResponse, Response

from fedforest.release import __version__
from fedforest.reports.markup import Child, Markup, element, join, trusted_text
from fedforest.web.dashboard.assets_folder import asset_url
from fedforest.web.dashboard.visits import Visit

_BADGES = {"running": "busy", "queued": "warn", "paused": "warn", "failed": "bad"}


class NavigationItem(NamedTuple):
    """A page that the navigation leads to."""

    path: str
    title: str


class Site(NamedTuple):
    """What the frame says of a whole site."""

    title: str  # such as the federation's name
    kind: str  # "coordinator" or "party"
    navigation: Sequence[NavigationItem]


def write_document(site: Site, title: str, body: Child) -> str:
    """Return a whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · {site.title}"),
        element("link", rel="icon", href=asset_url("icon.svg"), type="image/svg+xml"),
        element("link", rel="stylesheet", href=asset_url("style.css")),
        element("script", "", src=asset_url("dashboard.js"), defer=True),
    )
    return f"<!doctype html>\n{element('html', head, element('body', body), lang='en')}\n"


def show_page(
    visit: Visit,
    title: str,
    *children: Child,
    status: int = 200,
    lead: Child = None,
    trail: Sequence[tuple[str, str]] = (),
) -> Response:
    """Return a page of a logged-in user; `trail` has the pages above it."""
    site: Site = visit.site.frame
    above: list[Child] = [[element("a", name, href=path), " / "] for path, name in trail]
    head = element(
        "header",
        element("p", above, class_="trail") if above else None,
        element("h1", title),
        element("div", lead, class_="lead") if lead else None,
    )
    body = [
        element("a", "Skip to the content", href="#main", class_="skip"),
        _top(visit, site),
        element("main", head, join(children), id="main"),
        _footer(),
    ]
    return HTMLResponse(write_document(site, title, body), status)


def show_part(*children: Child, status: int = 200) -> Response:
    """Return a part of a page, for scripts of ours."""
    return HTMLResponse(str(join(children)), status)


def explain_refusal(visit: Visit, status: int, text: str) -> Response:
    """Return the page, or the part of one, that tells why something is not possible."""
    told = notice(text, kind="bad")
    if visit.is_partial:
        return show_part(told, status=status)
    titles = {403: "Not allowed", 404: "There is no such page", 500: "A fault of the server"}
    title = titles.get(status, "That is not possible")
    return show_page(visit, title, told, status=status)


def _top(visit: Visit, site: Site) -> Markup:
    path = visit.request.url.path
    items = [
        element(
            "li",
            element(
                "a", item.title, href=item.path, aria_current="page" if _is_at(path, item) else None
            ),
        )
        for item in site.navigation
    ]
    who = element(
        "div",
        element("span", visit.user, class_="who") if visit.user else None,
        action_button(visit, "/logout", "Log out", class_="quiet-button"),
        class_="session",
    )
    mark = element(
        "a",
        element("img", src=asset_url("icon.svg"), alt="", width=26, height=26),
        element("span", site.title),
        href="/",
        class_="mark",
    )
    menu = element("nav", element("ul", items), aria_label="pages")
    return element("div", element("div", mark, menu, who, class_="bar"), class_="top")


def _is_at(path: str, item: NavigationItem) -> bool:
    if "/new" in path or "/new" in item.path:
        return path == item.path
    return path == item.path or path.startswith(f"{item.path}/")


def _footer() -> Markup:
    told = f"fedforest {__version__}. Times are those of the server's place."
    return element("footer", element("p", told))


def badge(text: str, kind: str | None = None) -> Markup:
    """Return a word in a coloured frame, by default as states of runs have it."""
    kind = _BADGES.get(text, "") if kind is None else kind
    return element("span", text, class_=f"badge {kind}".strip())


def notice(*children: Child, kind: str = "") -> Markup:
    """Return something to be noticed."""
    role = "alert" if kind == "bad" else "status"
    return element("div", join(children), class_=f"notice {kind}".strip(), role=role)


def action_button(  # noqa: PLR0913 - what a button has
    visit: Visit,
    path: str,
    label: str,
    *,
    fields: Mapping[str, str] | None = None,
    class_: str = "",
    confirm: str = "",
) -> Markup:
    """Return a form of one button."""
    hidden = [
        element("input", type="hidden", name=name, value=value)
        for name, value in {"by": visit.session.form_token, **(fields or {})}.items()
    ]
    button = element("button", label, type="submit", class_=class_ or None)
    return element(
        "form",
        hidden,
        button,
        method="post",
        action=path,
        class_="inline",
        data_confirm=confirm or None,
    )


def code_block(text: str, label: str) -> Markup:
    """Return a text with its lines as they are."""
    code = element("code", as_lines(text))
    return element("pre", code, tabindex=0, role="region", aria_label=label)


def as_lines(text: str) -> Child:
    """Return a text of several lines; `printable` would show their ends."""
    return [[line, trusted_text("\n")] for line in text.rstrip("\n").split("\n")]


def labelled(label: str, control: Markup, hint: str = "", *, for_: str = "") -> Markup:
    """Return a control of a form with its label."""
    told = element("small", hint) if hint else None
    return element("div", element("label", label, for_=for_ or None), control, told, class_="field")


def select(
    name: str, options: Sequence[tuple[str, str]], chosen: str = "", **attributes: str
) -> Markup:
    """Return a choice; options are values with their texts."""
    listed = [
        element("option", text, value=value, selected=value == chosen) for value, text in options
    ]
    return element("select", listed, name=name, id=name, **attributes)
