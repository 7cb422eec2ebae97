"""What the site takes from the code: a marker in a page is replaced by generated Markdown.

A page says `<!-- generated: NAME -->` where the text of `GENERATORS[NAME]` belongs, so the page
has a place and words of its own, and the generated part is never out of date.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.book import access, api, command_line, diagrams, errors, messages, scaling, toml_files

GENERATORS: Mapping[str, Callable[[], str]] = {
    "estimators": api.describe_estimators,
    "protections": api.describe_protections,
    "rights of users": access.describe_rights,
    "askers of parties": access.describe_askers,
    "requests to parties": access.describe_party_requests,
    "command line": command_line.describe_commands,
    "run.toml": toml_files.describe_run_file,
    "policy.toml": toml_files.describe_policy,
    "coordinator.toml": toml_files.describe_coordinator,
    "party.toml": toml_files.describe_party,
    "profile.toml": toml_files.describe_profile,
    "catalogue entry": toml_files.describe_entry,
    "error classes": errors.describe_classes,
    "error texts": errors.describe_texts,
    "messages": messages.describe_messages,
    "vertical transcript": diagrams.draw_vertical,
    "horizontal transcript": diagrams.draw_horizontal,
    "prediction transcript": diagrams.draw_prediction,
    "planned growth": scaling.describe_growth,
    "planned extremes": scaling.describe_extremes,
}
MARKER = re.compile(r"^<!-- generated: ([^>]+) -->$", flags=re.MULTILINE)
INCLUDED = re.compile(r"^<!-- the text of (\S+) -->$", flags=re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)\s:]+?)(#[^)\s]*)?(?=\))")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE_OF_FILE = {  # documents that stand outside of docs/, and their pages
    ROOT / "README.md": DOCS / "index.md",
    ROOT / "CONTRIBUTING.md": DOCS / "contributing.md",
    ROOT / "CHANGELOG.md": DOCS / "changelog.md",
    ROOT / "benchmarks" / "RESULTS.md": DOCS / "results" / "benchmarks.md",
}


def insert_generated(app: object, page: str, source: list[str]) -> None:
    """Replace the markers of a page, as an event of Sphinx that has just read it."""
    del app
    here = (DOCS / f"{page}.md").parent
    text = relink(source[0], here, here).replace(" ± ", "\u00a0±\u00a0")  # not at a line's end
    text = INCLUDED.sub(lambda marker: read_document(ROOT / marker[1], here), text)
    source[0] = MARKER.sub(lambda marker: GENERATORS[marker[1]](), text)


def read_document(path: Path, here: Path) -> str:
    """Return a document without its title, its links as they are from another folder."""
    return relink(path.read_text().partition("\n")[2], path.parent, here)


def relink(text: str, origin: Path, here: Path) -> str:
    """Return a text whose links, which count from one folder, count from another one."""

    def point(link: re.Match[str]) -> str:
        target = (origin / link[1]).resolve()
        if not target.is_file():
            return link[0]  # strict building tells
        return os.path.relpath(PAGE_OF_FILE.get(target, target), here) + (link[2] or "")

    return LINK.sub(point, text)
