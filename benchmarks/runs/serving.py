"""Times `fedforest serve`: requests of one row by 1, 8 and 64 callers, and batches.

    python benchmarks/runs/serving.py [--quick]

The server is a process of its own; callers are threads of this one, each with a connection that it
keeps. Rates are by the clock and by the processor time of the server alone, because callers and
other work share the machine. Latencies are what callers see. In front stands the time of the answer
alone, from parsed rows to a dictionary of predictions, beside a fitted estimator's `predict_proba`.
"""

import argparse
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

import numpy as np
from sklearn.datasets import load_breast_cancer

from benchmarks.report import RESULTS, write_page
from fedforest import HorizontalExtraTreesClassifier, VerticalForestClassifier
from fedforest.experiments.environment import describe_environment
from fedforest.tree.files.forests import decode_forest
from fedforest.web.serving.model import ServedModel

CALLERS, N_TREES, N_REQUESTS, BATCH = (1, 8, 64), 100, 6_400, 1_000


def train() -> dict[str, tuple[Any, bytes]]:
    """Return a horizontal and an exported vertical forest, with their files."""
    X, y = load_breast_cancer(return_X_y=True)
    horizontal = HorizontalExtraTreesClassifier(N_TREES, random_state=0)
    horizontal.fit(X, y, party=np.arange(len(y)) % 3)
    vertical = VerticalForestClassifier(N_TREES, parties=2, random_state=0).fit(X, y)
    whole = vertical.complete_model(dict.fromkeys(vertical.parties_, True))
    return {"horizontal": (horizontal, horizontal.to_bytes()), "vertical": (vertical, whole)}


def time_answers(kind: str, forest: Any, file: bytes, n_times: int) -> dict[str, Any]:
    """Measure microseconds of processor time for one row, in process."""
    rows = load_breast_cancer(return_X_y=True)[0].tolist()
    model = ServedModel(kind, decode_forest(file))

    def microseconds(work: Any, times: int) -> float:
        work()
        least = float("inf")
        for _ in range(5):
            start = time.process_time()
            for _ in range(times):
                work()
            least = min(least, (time.process_time() - start) / times)
        return 1e6 * least

    return {
        "model": kind,
        "answer": microseconds(lambda: model.answer(rows[:1]), n_times),
        "estimator": microseconds(lambda: forest.predict_proba(rows[:1]), n_times // 10),
        "batch_row": microseconds(lambda: model.answer(rows), n_times // 100) / len(rows),
    }


class Caller:
    """A connection that asks the same question again and again."""

    def __init__(
        self, address: tuple[str, int], request: bytes, tls: ssl.SSLContext | None = None
    ) -> None:
        self._address, self._request, self._tls = address, request, tls
        self.seconds: list[float] = []

    def ask(self, times: int) -> None:
        """Ask and wait for the whole answer each time."""
        with socket.create_connection(self._address, timeout=60) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._tls.wrap_socket(plain) if self._tls is not None else plain
            for _ in range(times):
                start = time.perf_counter()
                connection.sendall(self._request)
                self._read(connection)
                self.seconds.append(time.perf_counter() - start)

    @staticmethod
    def _read(connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        n_read = len(body)
        while n_read < length:
            n_read += len(connection.recv(1 << 16))


def processor_seconds(process: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server(NamedTuple):
    """A process that serves."""

    process: int
    url: str
    token: str


def time_requests(
    server: Server, n_callers: int, n_requests: int, n_rows: int = 1
) -> dict[str, Any]:
    """Let callers ask at once; return rates and latencies."""
    rows = np.resize(load_breast_cancer(return_X_y=True)[0], (n_rows, 30)).tolist()
    body = json.dumps({"rows": rows}).encode()
    host, port = server.url.removeprefix("http://").split(":")
    head = (
        "POST /v1/models/horizontal/predictions HTTP/1.1\r\n"
        f"Host: {host}\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    callers = [Caller((host, int(port)), head.encode() + body) for _ in range(n_callers)]
    threads = [
        threading.Thread(target=caller.ask, args=(n_requests // n_callers,)) for caller in callers
    ]
    before, start = processor_seconds(server.process), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock, processor = time.perf_counter() - start, processor_seconds(server.process) - before
    waited = np.array([second for caller in callers for second in caller.seconds])
    return {
        "callers": n_callers,
        "rows": n_rows,
        "per_second": len(waited) / clock,
        "per_server_core": len(waited) / max(processor, 0.01),
        "p50_ms": 1e3 * float(np.quantile(waited, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(waited, 0.99)),
    }


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the result and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few requests, written nowhere")
    quick = parser.parse_args(arguments).quick
    n_requests = N_REQUESTS // 100 if quick else N_REQUESTS
    environment, started = describe_environment(), time.perf_counter()
    models = train()
    answers = [
        time_answers(kind, *model, 200 if quick else 5_000) for kind, model in models.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "horizontal.model"
        file.write_bytes(models["horizontal"][1])
        command = [sys.executable, "-m", "fedforest", "serve", str(file), "--json"]
        with subprocess.Popen(
            [*command, "--address", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                told = json.loads(process.stdout.readline())
                server = Server(process.pid, told["url"], told["token"])
                time_requests(server, 1, 20)
                requests = [time_requests(server, n, n_requests) for n in CALLERS]
                batches = time_requests(server, 8, max(8, n_requests // 80), BATCH)
            finally:
                process.terminate()
    result = {
        "run": "serving",
        "environment": environment,
        "settings": {"trees": N_TREES, "columns": 30, "seed": 0, "quick": quick},
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "answers": answers,
        "requests": [*requests, batches],
    }
    print(json.dumps(result, indent=1))
    if not quick:
        (RESULTS / "serving.json").write_text(json.dumps(result, indent=1) + "\n")
        write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
