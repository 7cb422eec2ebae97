"""Messages and bytes of section 4.5 of Federated Forest."""

import socket
import threading

import pytest

from fedforest.experiments.experiment import FAILS, HOLDS
from fedforest.experiments.live.line import CountingLine, Line
from fedforest.experiments.live.traffic import COMPLEXITY
from fedforest.experiments.record import Record

DEADLINE_SECONDS = 20.0


def test_a_line_counts_the_bytes_of_both_directions() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_SECONDS)

        def echo() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(DEADLINE_SECONDS)
                connection.sendall(connection.recv(100) * 2)

        thread = threading.Thread(target=echo)
        thread.start()
        line = CountingLine(f"127.0.0.1:{server.getsockname()[1]}", Line())
        host, _, port = line.start().rpartition(":")
        with socket.create_connection((host, int(port)), DEADLINE_SECONDS) as client:
            client.sendall(b"12345")
            assert client.recv(100) == b"1234512345"
        thread.join(DEADLINE_SECONDS)
        line.close()
    assert line.n_bytes == 15


@pytest.mark.parametrize(("of_eight", "verdict"), [(16, HOLDS), (17, FAILS)])
def test_one_round_takes_two_messages_of_each_party(of_eight: int, verdict: str) -> None:
    record = Record("ff-complexity", {})
    for axis, first, last in (("depth", 2, 12), ("parties", 2, 8)):
        for point in (first, last):
            parties = point if axis == "parties" else 2
            for trees in ("1 tree", "20 trees"):
                measured = {
                    "messages": 10 * point,
                    "contents": 1,
                    "wire": 2,
                    "by node": 30,
                    "bound": 2.0**point,
                    "one round": of_eight if parties == 8 else 2 * parties,
                    "classical": 20 * point,
                    "prediction wire": 5,
                    "rows": 3,
                }
                measured["bound"] = max(measured["bound"], 20.0)
                record.add((f"by {axis}", trees, str(point)), measured)
    verdicts = [check.verdict for check in COMPLEXITY.report(record).checks]
    assert verdicts == [HOLDS, HOLDS, HOLDS, verdict, HOLDS]
