"""Check the built site: every link leads to a page, and every fragment to a place on it."""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links and the places of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.places.add(value)


@cache
def read_page(path: Path) -> _Page:
    """Read a page once."""
    page = _Page()
    page.feed(path.read_text())
    return page


def broken_links(site: Path) -> list[str]:
    """Return every link of a built site that leads nowhere in it, or out of it for a resource."""
    found = []
    pages = (path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts)
    for path in pages:
        for link in read_page(path).links:
            complaint = _complaint(path, link)
            if complaint:
                found.append(f"{path.relative_to(site)}: {link}: {complaint}")
    return found


def _complaint(path: Path, link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""  # other sites are not asked: the site is built without a network
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "there is no such file"
    if parts.fragment and target.suffix == ".html":
        known = read_page(target).places
        if unquote(parts.fragment) not in known:
            return "there is no such place on the page"
    return ""


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]))
    sys.stderr.write("".join(f"{line}\n" for line in broken))
    sys.exit(bool(broken))
