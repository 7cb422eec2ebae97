"""Debian's Chromium, driven by playwright, and a federation of real processes with its pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from fedforest.cli.demonstration.federation import find_ports, login_link, running_federation
from fedforest.runtime.coordinator.home import load_members

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUM = shutil.which("chromium")
WAIT_MS = 120_000.0
# A name is a text, whatever it says.
HOSTILE = '<img src=x onerror="document.title=1">'
LABEL = f"left {HOSTILE}"
SECRET = "diagnosis-of-the-shop"  # a column of the other party


@dataclass(frozen=True)
class PagesInProcesses:
    """A federation whose coordinator and first party have pages."""

    folder: Path
    port: int
    party_ports: dict[str, int]

    def link(self, user: str) -> str:
        """An address that logs a user in."""
        return login_link(self.folder / "coordinator", self.port, user)

    def party_link(self, party: str) -> str:
        """An address that logs the owner of a party's data in."""
        return login_link(self.folder / party, self.party_ports[party])

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def party_address(self, party: str, path: str) -> str:
        return f"http://127.0.0.1:{self.party_ports[party]}{path}"


def make_tables(n_rows: int = 400) -> dict[str, dict[str, Any]]:
    """Tables of a bank that has the label, and a shop; rows are known by ids."""
    rng = np.random.default_rng(0)
    bank, shop = rng.normal(size=(n_rows, 4)), rng.normal(size=(n_rows, 3))
    risk = np.where(bank[:, 0] + shop[:, 0] + 0.3 * rng.normal(size=n_rows) > 0, "leaves", "stays")
    ids = [f"person {number:05d}" for number in range(n_rows)]
    ours = {"letter": ids, "income": bank[:, 0], "age": bank[:, 1], HOSTILE: bank[:, 2]}
    theirs = {"letter": ids, SECRET: shop[:, 0], "visits": shop[:, 1], "basket": shop[:, 2]}
    return {
        "bank": {"customers": pyarrow.table({**ours, LABEL: risk})},
        "shop": {"clients": pyarrow.table(theirs)},
    }


@contextmanager
def pages_in_processes(folder: Path, tables: Any = None) -> Iterator[PagesInProcesses]:
    """Start them; whatever happens, none of them is left."""
    tables = tables or make_tables()
    port, *others = find_ports(1 + len(tables))
    ports = dict(zip(tables, others, strict=True))
    with running_federation(folder, tables, port, ports):
        load_members(folder / "coordinator").grant("analyst", "operator")
        yield PagesInProcesses(folder, port, ports)


@dataclass
class Watched:
    """A page of a browser, with everything that went wrong in it."""

    page: Page
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: dialog.accept())
        self.page.on("console", self._note)
        self.page.on("request", self._note_request)

    def _note(self, message: Any) -> None:
        if message.type == "error" and "status of 4" not in message.text:
            self.troubles.append(message.text)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.troubles.append(f"asked for {request.url}")

    def find_faults(self) -> list[str]:
        """What axe-core calls a serious or critical fault of the page."""
        script = files("axe_playwright_python") / "axe.min.js"
        self.page.evaluate(script.read_text("utf-8"))
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{fault['id']}: {node['html'][:120]}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
            for node in fault["nodes"]
        ]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, with a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def look(
    browser: Browser,
    scheme: Literal["light", "dark"] = "light",
    width: int = 1280,
    height: int = 860,
) -> BrowserContext:
    """A window of this size and in these colours."""
    return browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}, accept_downloads=True
    )
