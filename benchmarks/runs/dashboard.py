"""How long the pages of a coordinator with a long history take, in milliseconds.

    python benchmarks/runs/dashboard.py [--runs 10000] [--exchanges 45] [--browser [--trees 1000]]

The history holds finished runs of two parties with their exchanges. Pages are asked of the real
service in this process, once cold and then five times, whose best and worst are told. With
--browser, of a coordinator that is a process of its own with a forest of two parties, by Debian's
Chromium (playwright): until something is painted, and until what a script asks for afterwards is
there: what the model goes by, the drawing of a tree.
"""

import argparse
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fedforest.cli.demonstration.federation import find_ports, login_link, running_federation
from fedforest.cli.demonstration.letters import ID
from fedforest.errors import TooFewParties
from fedforest.protocol.network import Network
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.coordinator.home import load_members
from fedforest.runtime.coordinator.runs import LEAKAGE
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.membership.service_tokens import ServiceTokens
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.results import VerticalResult
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.web.dashboard.coordinator_site import make_routes

PAGES = ("/runs", "/runs?from=5000", "/runs?name=r77", "/federation", "/runs/new", "/privacy")
N_TIMES = 5
N_SHOWN = 60  # on the page about privacy
LAST = {"/runs/RUN": "text=What it goes by", "/runs/RUN/trees": "g[role=treeitem]"}


class NoParties:
    """A hub that no party is connected to."""

    network = Network(latency_seconds=1e-3, bytes_per_second=1e8)

    def connected(self) -> list[str]:
        return []

    def wait_for_parties(self, names: object, timeout_seconds: float) -> None:
        raise TooFewParties(f"{names} within {timeout_seconds}")

    def exchange(self, requests: object, *, may_lose: bool = False) -> dict[str, bytes]:
        del requests, may_lose
        return {}


def fill(home: Path, n_runs: int, n_exchanges: int) -> None:
    """Write a history as a coordinator writes it, and the folders of its runs."""
    path, leakage = (
        home / "history.sqlite",
        b'{"figures": {"label_epsilon_spent": 0.1}, "learned": []}',
    )
    for n in range(n_runs):
        folder = home / "runs" / f"{n:032x}"
        folder.mkdir()
        (folder / "finished").touch()
        (folder / LEAKAGE).write_bytes(leakage)
    order = '{"data": {"bank": "customers", "shop": "clients"}, "label": "left"}'
    with sqlite3.connect(path) as database:
        database.executemany(
            "INSERT INTO runs (run, name, user, protocol, description, state, created, started,"
            " ended) VALUES (?, ?, 'fedforest:tests/user/ada', 'vertical', ?, 'finished', ?, ?, ?)",
            [(f"{n:032x}", f"r{n}", order, 1e9 + n, 1e9 + n, 1e9 + n + 5.0) for n in range(n_runs)],
        )
        database.executemany(
            "INSERT INTO exchanges VALUES (?, ?, ?, ?, 'FindSplits', 0, 10, ?, 5, 100, 200, 0.01)",
            (
                (f"{n:032x}", number, party, 1e9 + n, number)
                for n in range(n_runs)
                for number in range(n_exchanges)
                for party in ("bank", "shop")
            ),
        )
    database.close()


def make_tables(n_rows: int = 1_000) -> dict[str, dict[str, pyarrow.Table]]:
    """Make tables of two parties with three columns each, and labels at the first one."""
    X = np.random.default_rng(0).normal(size=(n_rows, 6)).astype(np.float32)
    columns: dict[str, Any] = {f"x{number}": X[:, number] for number in range(6)}
    columns[ID] = [f"person {row}" for row in range(n_rows)]
    label = np.where(X[:, 0] * X[:, 3] + X[:, 1] > 0.0, "leaves", "stays")
    own = {name: columns[name] for name in (ID, "x0", "x1", "x2")}
    theirs = {name: columns[name] for name in (ID, "x3", "x4", "x5")}
    bank, shop = pyarrow.table({**own, "left": label}), pyarrow.table(theirs)
    return {"bank": {"customers": bank}, "shop": {"clients": shop}}


def measure_in_browser(folder: Path, sizes: argparse.Namespace) -> None:
    """Time a browser on the pages of a coordinator with this history and a large forest."""
    (port,) = find_ports(1)
    order = TrainVertical(
        data={"bank": "customers", "shop": "clients"},
        label="left",
        label_party="bank",
        parameters=ForestParameters(n_estimators=sizes.trees, min_samples_leaf=5),
        seed=0,
    )
    with running_federation(folder, make_tables(), port) as profile:
        home = folder / "coordinator"
        load_members(home).grant("analyst", "operator")  # who sees the runs of all
        with Federation(profile) as federation:
            model = federation.train(order, VerticalResult).model
        fill(home, sizes.runs, sizes.exchanges)
        visit(login_link(home, port, "analyst"), model)


def visit(link: str, model: str) -> None:
    """Log in and look at every page, with a fresh profile."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - with --browser only

    url = link.partition("/login")[0]
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        page = browser.new_page()
        page.goto(link)
        page.wait_for_selector("h1:text-is('Runs')")
        assert page.get_by_role("link", name="Older").count(), "the history has several pages"
        for part in (*PAGES, f"/runs/{model}", f"/runs/{model}/trees"):
            last = LAST.get(part.replace(model, "RUN"), "")
            times = [look(page, url + part, last) for _ in range(1 + N_TIMES)]
            (first, whole), *warm = times
            best, worst = min(warm)[0], max(warm)[0]
            told = f"first {first:6.0f} ms, then {best:.0f} to {worst:.0f} ms until painted"
            if last:
                told += f"; {whole:.0f}, then {min(each for _, each in warm):.0f} ms until whole"
            print(f"{part.replace(model, 'RUN'):20} {told}")
        browser.close()


def look(page: Any, address: str, last: str) -> tuple[float, float]:
    """Return the milliseconds from the click to the first contents, and to its last part."""
    page.goto(address, wait_until="commit")
    painted = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    first = float(page.wait_for_function(painted).json_value())
    if last:
        page.wait_for_selector(last)
    return first, float(page.evaluate("performance.now()"))


def main() -> None:
    """Fill a history, ask for every page, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--exchanges", type=int, default=45)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--trees", type=int, default=1_000)
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if sizes.browser:
            measure_in_browser(Path(folder), sizes)
            return
        home = Path(folder)
        service = CoordinatorService(home, NoParties(), users=lambda: {"olga": "operator"})
        fill(home, sizes.runs, sizes.exchanges)
        service.start()
        tokens = ServiceTokens(home / "tokens.json")
        routes = make_routes(
            service.serve, "tests", tokens, lambda: {"olga": "operator"}, lambda _: None
        )
        client = TestClient(Starlette(routes=list(routes)), base_url="http://127.0.0.1")
        client.post("/login", data={"token": tokens.issue("bench", user="olga")})
        for path in PAGES:
            times = []
            for _ in range(1 + N_TIMES):
                began = time.perf_counter()
                answer = client.get(path)
                times.append(1000.0 * (time.perf_counter() - began))
                assert answer.status_code == 200, answer.text
            cold, *warm = times
            assert path != "/privacy" or f"latest {N_SHOWN} runs" in answer.text, answer.text
            print(f"{path:20} cold {cold:7.1f} ms, then {min(warm):.1f} to {max(warm):.1f} ms")
        service.close()


if __name__ == "__main__":
    main()
