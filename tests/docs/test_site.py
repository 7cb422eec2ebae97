"""The site holds together: pages are in the menu, links and markers lead somewhere.

These tests only read files; `make docs` builds the site itself, with warnings as errors.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from docs.book.pages import DOCS, GENERATORS, INCLUDED, MARKER, PAGE_OF_FILE, ROOT, relink

pytestmark = pytest.mark.structure

PAGES = sorted(DOCS.rglob("*.md"))
of_every_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))


def menu_of(page: Path) -> list[Path]:
    """The pages that the toctrees of a page name."""
    named = []
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                path = re.sub(r"^.*<(.+)>$", r"\1", line)
                pattern = f"{path}.md" if "*" not in path else f"{path.rstrip('*')}*.md"
                found = sorted(page.parent.glob(pattern))
                named += found or [page.parent / pattern]
    return named


def reachable_pages() -> set[Path]:
    found, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        found.add(page)
        waiting += [inner for inner in menu_of(page) if inner not in found]
    return found


@cache
def places_on(page: Path) -> set[str]:
    """The fragments of a page's headings, as the site names them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    slugs: Counter[str] = Counter()
    places = set()
    for heading in re.findall(r"^#{1,4} (.+)$", text, flags=re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")
        places.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
        slugs[slug] += 1
    return places


def broken_fragments(page: Path) -> list[str]:
    broken = []
    for path, fragment in re.findall(r"\]\(([^)\s:#]*)#([^)\s]+)\)", page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if target.suffix == ".md" and fragment not in places_on(target):
            broken.append(f"{path}#{fragment}")
    return broken


def test_every_page_is_in_the_menu_and_every_entry_of_it_is_a_page() -> None:
    reachable = reachable_pages()
    assert [page for page in reachable if not page.is_file()] == []
    assert set(PAGES) - reachable == set()


@of_every_page
def test_links_to_a_place_on_a_page_lead_to_one_of_its_headings(page: Path) -> None:
    assert broken_fragments(page) == []


@of_every_page
def test_a_page_begins_with_its_only_title(page: Path) -> None:
    text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text(), flags=re.DOTALL).lstrip()
    prose = re.sub(r"^(```+).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose, flags=re.MULTILINE)) == 1


def test_every_marker_has_a_generator_and_every_generator_a_page() -> None:
    named = [name for page in PAGES for name in MARKER.findall(page.read_text())]
    assert Counter(named) == dict.fromkeys(GENERATORS, 1)


def test_documents_outside_of_the_folder_have_a_page_that_takes_in_their_text() -> None:
    taken_in = {page: ROOT / path for page in PAGES for path in INCLUDED.findall(page.read_text())}
    readme = {ROOT / "README.md": DOCS / "index.md"}
    assert {path: page for page, path in taken_in.items()} | readme == dict(PAGE_OF_FILE)


def test_links_of_a_text_are_the_same_from_another_folder() -> None:
    text = "[a](docs/how-to/runs.md#the-file) [b](CHANGELOG.md) [c](gone.md) [d](https://x.y/z)"
    expected = (
        "[a](../how-to/runs.md#the-file) [b](../changelog.md) [c](gone.md) [d](https://x.y/z)"
    )
    assert relink(text, ROOT, DOCS / "results") == expected


def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "index.md").write_text("# One\n```{toctree}\ngone\n```\n[x](#two) [y](#one)\n")
    assert menu_of(tmp_path / "index.md") == [tmp_path / "gone.md"]
    assert broken_fragments(tmp_path / "index.md") == ["#two"]
