"""Times predictions over HTTP by a federation: single rows by id, by 1, 8 and 64 callers; batches.

    python benchmarks/runs/serving_federation.py [--quick]

A coordinator and two parties are processes of their own on loopback, with mutual TLS among them and
TLS to callers, who are threads of this process with a connection each. Rows are named by ids under
a standing alignment. Every policy, quota, ledger and log is as in use.
"""

import argparse
import json
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
import pyarrow

from benchmarks.report import RESULTS, write_page
from benchmarks.runs.serving import Caller
from fedforest.experiments.environment import describe_environment
from fedforest.experiments.live.federation import LiveFederation
from fedforest.runtime.membership.service_tokens import FILE, ServiceTokens
from fedforest.runtime.messages.orders import AlignRows, StandingName, TrainVertical
from fedforest.runtime.messages.results import Alignment, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters

PARTIES, N_ROWS, N_COLUMNS, N_TREES, DEPTH = ("bank", "shop"), 20_000, 30, 100, 10
CALLERS, N_REQUESTS, BATCHES = (1, 8, 64), 3_200, ((1, 1_000), (4, 1_000), (4, 5_000))
DATA = dict.fromkeys(PARTIES, "customers")


def make_tables(seed: int = 0) -> dict[str, dict[str, pyarrow.Table]]:
    """Return the same customers at two parties, each in an order of its own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).astype(np.float32)
    label = np.where(X[:, ::3].sum(axis=1) + rng.normal(size=N_ROWS) > 0, "leaves", "stays")
    tables = {}
    for number, party in enumerate(PARTIES):
        order = rng.permutation(N_ROWS)
        own: dict[str, Any] = {"id": [f"C-{row}" for row in order]}
        for column in range(number, N_COLUMNS, len(PARTIES)):
            own[f"x{column}"] = X[order, column]
        if not number:
            own["label"] = label[order]
        tables[party] = {"customers": pyarrow.table(own)}
    return tables


def train(federation: LiveFederation, n_trees: int) -> str:
    """Align the customers, and train a forest on them."""
    with federation.connect() as client:
        client.train(AlignRows(data=DATA, method="psi", name="customers"), Alignment)
        order = TrainVertical(
            data=DATA,
            label="label",
            label_party=PARTIES[0],
            parameters=ForestParameters(n_estimators=n_trees, max_depth=DEPTH),
            align=StandingName("customers"),
            seed=0,
        )
        return client.train(order, VerticalResult).model


class Endpoint:
    """The address of a model's predictions, and what a caller sends there."""

    def __init__(self, url: str, token: str, model: str) -> None:
        host, port = url.removeprefix("https://").removesuffix("/v1").split(":")
        self.address = host, int(port)
        self._head = (
            f"POST /v1/models/{model}/predictions HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        )
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.check_hostname = False
        self.tls.verify_mode = ssl.CERT_NONE  # the federation's own authority, on loopback

    def caller(self, n_rows: int, seed: int) -> Caller:
        """Return a caller that asks about some customers, again and again."""
        rows = np.random.default_rng(seed).choice(N_ROWS, n_rows, replace=False)
        body = json.dumps({"ids": [f"C-{row}" for row in rows]}).encode()
        head = self._head + f"Content-Length: {len(body)}\r\n\r\n"
        return Caller(self.address, head.encode() + body, self.tls)


def measure(
    federation: LiveFederation, endpoint: Endpoint, n_callers: int, n_requests: int, n_rows: int
) -> dict[str, Any]:
    """Let callers ask at once; return rates, latencies, and what the processes spent."""
    callers = [endpoint.caller(n_rows, seed) for seed in range(n_callers)]
    endpoint.caller(n_rows, 99).ask(2)
    threads = [
        threading.Thread(target=caller.ask, args=(max(1, n_requests // n_callers),))
        for caller in callers
    ]
    before = {role.home.name: role.processor_seconds() for role in federation.roles}
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock = time.perf_counter() - started
    waited = np.array([second for caller in callers for second in caller.seconds])
    spent = {
        role.home.name: role.processor_seconds() - before[role.home.name]
        for role in federation.roles
    }
    return {
        "callers": n_callers,
        "rows": n_rows,
        "requests": len(waited),
        "rows_per_second": len(waited) * n_rows / clock,
        "p50_ms": 1e3 * float(np.quantile(waited, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(waited, 0.99)),
        "processor_ms_per_request": {n: 1e3 * s / len(waited) for n, s in spent.items()},
    }


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the result and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few requests, written nowhere")
    quick = parser.parse_args(arguments).quick
    n_requests = N_REQUESTS // 10 if quick else N_REQUESTS
    environment, started = describe_environment(), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate = folder / "coordinator" / "tls"
        options: tuple[str, ...] = (
            "--http-api",
            "--web-address",
            "127.0.0.1:0",
            "--web-certificate",
        )
        options += (str(certificate / "certificate.pem"), "--web-key", str(certificate / "key.pem"))
        with LiveFederation(
            folder,
            make_tables(),
            id_column="id",
            rules='standing_serving = "ids"',
            coordinator_options=options,
        ) as federation:
            model = train(federation, N_TREES)
            token = ServiceTokens(folder / "coordinator" / FILE).issue("callers", user="analyst")
            told = federation.coordinator.log.read_text().split("HTTP API at ")[1].split()[0]
            endpoint = Endpoint(told, token, model)
            endpoint.caller(1, 0).ask(20)
            single = [measure(federation, endpoint, n, n_requests, 1) for n in CALLERS]
            batches = [
                measure(federation, endpoint, n, max(8, n_requests // 40), n_rows)
                for n, n_rows in BATCHES
            ]
    result = {
        "run": "serving_federation",
        "environment": environment,
        "settings": {
            "trees": N_TREES,
            "depth": DEPTH,
            "columns": N_COLUMNS,
            "parties": len(PARTIES),
            "seed": 0,
            "quick": quick,
        },
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "single": single,
        "batches": batches,
    }
    print(json.dumps(result, indent=1))
    if not quick:
        (RESULTS / "serving_federation.json").write_text(json.dumps(result, indent=1) + "\n")
        write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
