"""What a user sees and does in a browser, during a real run of real parties."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.dashboard.browser import (
    CHROMIUM,
    HOSTILE,
    LABEL,
    SECRET,
    PagesInProcesses,
    Watched,
    chromium,
    look,
    pages_in_processes,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no `chromium` here"),
]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesInProcesses]:
    with pages_in_processes(tmp_path_factory.mktemp("browser")) as found:
        yield found


def check_page(watched: Watched) -> None:
    """A page has a heading, no serious fault, no script of a name, and nothing broke in it."""
    page = watched.page
    page.wait_for_selector("h1")
    assert page.title() != "1", "a name was taken for markup"
    assert page.locator("img[src=x]").count() == 0
    faults = watched.find_faults()
    assert not faults, faults
    assert not watched.troubles, watched.troubles


def order_run(watched: Watched, address: str) -> str:
    """Fill in the form as a user does; return the address of the run."""
    page = watched.page
    page.goto(address)
    page.get_by_label("Name", exact=True).fill("churn")
    page.get_by_label("bank", exact=True).fill("customers")
    page.get_by_label("shop", exact=True).fill("clients")
    page.get_by_label("Column of the label").fill(LABEL)
    page.get_by_label("Trees", exact=True).fill("20")
    page.get_by_text("Out-of-bag score while it grows").click()
    page.wait_for_selector("text=The file is valid")
    page.wait_for_selector("text=it may take")  # the plan, by the tables of both parties
    check_page(watched)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile("/runs/[0-9a-f]{32}"))
    return page.url


def test_a_user_walks_through_the_pages_of_a_real_run(
    federation: PagesInProcesses, tmp_path: Path
) -> None:
    with chromium() as browser:
        watched = Watched(look(browser).new_page())
        page = watched.page
        page.goto(federation.address("/runs"))
        page.get_by_label("Token").fill("fft_wrong")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector("text=no valid token")
        check_page(watched)
        page.goto(federation.link("analyst"))
        page.wait_for_selector("h1:text-is('Runs')")
        run = order_run(watched, federation.address("/runs/new"))
        page.wait_for_selector(".badge:text-is('finished')")  # without a click: it is told
        page.wait_for_selector("text=What it goes by")
        check_page(watched)
        assert SECRET not in page.content()

        page.get_by_role("link", name="See its trees").click()
        page.wait_for_selector("g[role=treeitem]")
        drawn = page.locator("[role=tree]").text_content() or ""
        assert "shop" in drawn
        assert SECRET not in page.content()
        page.get_by_label("Path of row").fill("7")
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_selector("rect.leaf.on")
        n_shown = page.locator("g[role=treeitem]").count()
        page.locator("g[role=treeitem][aria-expanded=true]").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("g[role=treeitem]").count() < n_shown
        check_page(watched)
        page.get_by_role("link", name="Ask for names").click()
        page.wait_for_selector("text=its policy does not allow this export")

        predict_rows(watched, run)
        share_run(watched, run)
        download_report(watched, run, tmp_path / "report.html")
        for path in ("/runs", "/federation", "/privacy", "/runs/new?as=file"):
            page.goto(federation.address(path))
            page.wait_for_load_state("networkidle")
            check_page(watched)
        look_at_party(Watched(look(browser).new_page()), federation, run.rpartition("/")[2])


def predict_rows(watched: Watched, run: str) -> None:
    """Rows are predicted from the run's page; what cannot be is told where it was typed."""
    page = watched.page
    page.goto(run)
    page.get_by_label("Named by").select_option("rows")
    page.get_by_label("Rows", exact=True).fill("7, 0 7")
    page.get_by_role("button", name="Predict", exact=True).click()
    page.wait_for_selector("text=3 of 3 rows predicted")
    answers = [row.inner_text() for row in page.locator("tbody tr").all()]
    assert len(answers) == 3
    assert answers[0] == answers[2], answers
    assert re.search(r"^7\s+(leaves|stays)\s+[\d.]+%\s+[\d.]+%$", answers[0]), answers
    check_page(watched)
    page.get_by_label("Rows", exact=True).fill("seven")
    page.get_by_role("button", name="Predict", exact=True).click()
    page.wait_for_selector("[role=alert] >> text=whole numbers")
    assert page.get_by_label("Rows", exact=True).input_value().strip() == "seven"
    check_page(watched)


def share_run(watched: Watched, run: str) -> None:
    """A run is shared with a member, and that is ended; with nobody else."""
    page = watched.page
    page.goto(run)
    page.get_by_label("User", exact=True).fill("auditor")
    page.get_by_role("button", name="Share the run").click()
    page.wait_for_selector("[role=alert] >> text=there is no user 'auditor'")
    page.goto(run)
    page.get_by_label("User", exact=True).fill("analyst")
    page.get_by_role("button", name="Share the run").click()
    page.get_by_role("button", name="Share no more with analyst").click()
    page.wait_for_selector("text=Nobody but you and operators")
    check_page(watched)


def download_report(watched: Watched, run: str, report: Path) -> None:
    """The report comes as a file that holds no name of the other party, and no script."""
    watched.page.goto(run)
    with watched.page.expect_download() as started:
        watched.page.get_by_role("link", name="Download the report").click()
    started.value.save_as(report)
    assert "<script" not in report.read_text()
    assert SECRET not in report.read_text()


def look_at_party(watched: Watched, federation: PagesInProcesses, run: str) -> None:
    """The owner of the shop's data sees real names, and tightens the policy."""
    page = watched.page
    page.goto(federation.party_link("shop"))
    page.wait_for_selector("text=clients")
    check_page(watched)
    page.goto(federation.party_address("shop", "/data/clients"))
    page.wait_for_selector(f"text={SECRET}")
    check_page(watched)
    page.goto(federation.party_address("shop", f"/records/{run}"))
    page.wait_for_selector("g[role=treeitem]")
    page.get_by_role("button", name="Open all").click()
    assert SECRET in (page.locator("[role=tree]").text_content() or "")
    check_page(watched)
    page.goto(federation.party_address("shop", "/policy"))
    page.get_by_label("policy.toml").fill("[default]\nmin_rows_per_leaf = x\n")
    page.wait_for_selector("text=policy.toml:2")
    page.get_by_label("policy.toml").fill("[default]\nmin_rows_per_leaf = 50\n")
    page.wait_for_selector("text=any other data set (1 changed)")
    check_page(watched)
    page.get_by_role("button", name="Save the policy").click()
    page.wait_for_selector("text=It holds for whatever begins")
    policy = federation.folder / "shop" / "policy.toml"
    assert "min_rows_per_leaf = 50" in policy.read_text()
    for path in ("/records", "/ledger"):
        page.goto(federation.party_address("shop", path))
        check_page(watched)


def test_pages_fit_a_phone_and_dark_rooms(federation: PagesInProcesses) -> None:
    with chromium() as browser:
        watched = Watched(look(browser, "dark", 390, 844).new_page())
        page = watched.page
        page.goto(federation.link("analyst"))
        page.wait_for_selector("h1")
        for path in ("/runs", "/runs/new", "/federation", "/privacy"):
            page.goto(federation.address(path))
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"{path} is {wide} wide"
            check_page(watched)


def test_names_of_columns_are_texts_at_the_party_that_has_them(
    federation: PagesInProcesses,
) -> None:
    with chromium() as browser:
        watched = Watched(look(browser).new_page())
        watched.page.goto(federation.party_link("bank"))
        watched.page.wait_for_selector("text=customers")
        watched.page.goto(federation.party_address("bank", "/data/customers"))
        watched.page.wait_for_selector("text=income")
        assert HOSTILE in (watched.page.locator("table").last.text_content() or "")
        check_page(watched)
