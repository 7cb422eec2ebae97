"""HTML and SVG that cannot be broken out of: whatever is no markup of ours is escaped.

There is no way to write markup but `element`, and texts of parties, columns, classes and users come
in as plain `str`. So a page is safe by its types, not by care at each place.
"""

import html
from collections.abc import Iterable
from typing import TypeAlias

from fedforest.printable import printable

Child: TypeAlias = "str | Markup | Iterable[Child] | None"

_VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})


class Markup:
    """A finished piece of markup; only this module makes them from text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element; attributes that are None or False are left out, True has no value.

    `class_` and `for_` stand for names that Python reserves; other underscores are hyphens.
    """
    written = "".join(
        _attribute(key, value)
        for key, value in attributes.items()
        if value is not None and value is not False  # 0 is a value
    )
    opened = f"<{name}{written}>"
    return Markup(opened if name in _VOID else f"{opened}{join(children)}</{name}>")


def join(children: Child) -> Markup:
    """Return children one behind the other; texts are escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(html.escape(printable(children)))
    return Markup("".join(str(join(child)) for child in children))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(printable(str(value)), quote=True)}"'


def trusted_text(text: str) -> Markup:
    """Return a text of this package's own files, such as its style sheet, as it is."""
    return Markup(text)


def table(headings: Iterable[str], rows: Iterable[Iterable[Child]], *, caption: str = "") -> Markup:
    """Return a table whose first column names its rows; it scrolls where it is too wide."""
    head = element("tr", [element("th", heading, scope="col") for heading in headings])
    body = []
    for row in rows:
        first, *others = row
        cells = [element("td", cell) for cell in others]
        body.append(element("tr", element("th", first, scope="row"), cells))
    told = element("caption", caption) if caption else None
    whole = element("table", told, element("thead", head), element("tbody", body))
    return element(
        "div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption or "table"
    )
