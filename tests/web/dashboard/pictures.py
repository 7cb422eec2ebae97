"""`python -m tests.web.dashboard.pictures`: draw the pages for the documents, in docs/images.

A federation of the demo's three offices runs for it; it takes about two minutes.
"""

import re
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, Page

from fedforest.cli.demonstration.letters import LABEL, OFFICES, STRIPS, draw_letters
from tests.web.dashboard.browser import (
    PagesInProcesses,
    Watched,
    chromium,
    look,
    pages_in_processes,
)

IMAGES = Path(__file__).parents[3] / "docs" / "images" / "dashboard"
LARGEST = 150_000  # bytes


class Window(NamedTuple):
    """A kind of window that pages are drawn in."""

    name: str
    scheme: Literal["light", "dark"]
    width: int
    height: int


WINDOWS = (
    Window("light", "light", 1280, 860),
    Window("dark", "dark", 1280, 860),
    Window("phone", "light", 390, 844),
)


def draw_pages(browser: Browser, pages: PagesInProcesses, run: str) -> None:
    """Draw every page in every window."""
    addresses = {
        "runs": pages.address("/runs"),
        "run": pages.address(f"/runs/{run}"),
        "trees": pages.address(f"/runs/{run}/trees?row=3"),
        "new-run": pages.address(f"/runs/new?like={run}"),
        "federation": pages.address("/federation"),
        "privacy": pages.address("/privacy"),
        "party-data": pages.party_address(OFFICES[0], f"/data/{STRIPS}"),
        "party-policy": pages.party_address(OFFICES[0], "/policy"),
        "party-run": pages.party_address(OFFICES[0], f"/records/{run}"),
        "party-ledger": pages.party_address(OFFICES[0], "/ledger"),
    }
    for window in WINDOWS:
        page = Watched(look(browser, window.scheme, window.width, window.height).new_page()).page
        page.goto(pages.party_link(OFFICES[0]))
        page.wait_for_selector("h1:has-text('Data')")
        page.goto(pages.link("analyst"))
        page.wait_for_selector("h1:text-is('Runs')")
        for name, address in addresses.items():
            page.goto(address)
            wait_for_page(page, name)
            draw(page, f"{name}-{window.name}")


def wait_for_page(page: Page, name: str) -> None:
    """Return when all that is loaded afterwards is there."""
    page.wait_for_load_state("networkidle")
    if name == "trees":
        page.wait_for_selector("rect.leaf.on")
    elif name == "party-run":
        page.wait_for_selector("g[role=treeitem]")
        page.locator("[data-tree]").scroll_into_view_if_needed()
    elif name == "new-run":
        page.wait_for_selector("text=it may take")


def draw(page: Page, name: str) -> None:
    """Draw what is in sight."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size < LARGEST, f"{path} is too large"


def order(page: Page, pages: PagesInProcesses, name: str, **more: str) -> str:
    """Order a run by the form, draw it on its way if asked to, and return its id."""
    page.goto(pages.address("/runs/new"))
    page.get_by_label("Name", exact=True).fill(name)
    for office in OFFICES:
        page.get_by_label(office, exact=True).fill(STRIPS)
    page.get_by_label("Column of the label").fill(LABEL)
    page.get_by_text("Out-of-bag score while it grows").click()
    page.get_by_label("Trees", exact=True).fill(more.get("trees", "100"))
    if "epsilon" in more:
        page.get_by_label("Labels travel").select_option("RandomizedResponse")
        page.get_by_label("ε of the labels").fill(more["epsilon"])
        page.get_by_label("Rows held out").fill("")  # scores would be a release without noise
    page.wait_for_selector("text=The file is valid")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile("/runs/[0-9a-f]{32}"))
    if "picture" in more:
        page.wait_for_selector("text=/level [3-9]/")
        draw(page, more["picture"])
    page.wait_for_selector(".badge:text-is('finished')")
    return page.url.rpartition("/")[2]


def main() -> None:
    """Start a federation, order runs, draw."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pages_in_processes(Path(folder), draw_letters(0).tables) as pages,
        chromium() as browser,
    ):
        page = Watched(look(browser).new_page()).page
        page.goto(pages.link("analyst"))
        page.wait_for_selector("h1:text-is('Runs')")
        for number, epsilon in enumerate(("4", "2", "3"), 1):
            order(page, pages, f"noisy-{number}", epsilon=epsilon, trees="20")
        run = order(page, pages, "digits", picture="live-light", trees="5000")
        draw_pages(browser, pages, run)


if __name__ == "__main__":
    main()
