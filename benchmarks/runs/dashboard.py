"""How long the pages of a coordinator with a long history take, in milliseconds.

    python benchmarks/runs/dashboard.py [--runs 10000] [--exchanges 45]

The history holds finished runs of two parties with their exchanges. Pages are asked of the real
service in this process, once cold and then five times, whose best and worst are told.
"""

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from fedforest.errors import TooFewParties
from fedforest.protocol.network import Network
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.membership.service_tokens import ServiceTokens
from fedforest.web.dashboard.coordinator_site import make_routes

PAGES = ("/runs", "/runs?from=5000", "/runs?name=r77", "/federation", "/runs/new", "/privacy")
N_TIMES = 5


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


def fill(path: Path, n_runs: int, n_exchanges: int) -> None:
    """Write a history as a coordinator writes it."""
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


def main() -> None:
    """Fill a history, ask for every page, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--exchanges", type=int, default=45)
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        service = CoordinatorService(home, NoParties(), users=lambda: {"olga": "operator"})
        fill(home / "history.sqlite", sizes.runs, sizes.exchanges)
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
            print(f"{path:20} cold {cold:7.1f} ms, then {min(warm):.1f} to {max(warm):.1f} ms")
        service.close()


if __name__ == "__main__":
    main()
