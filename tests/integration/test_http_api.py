"""The HTTP API of a coordinator's process: the curl lines of the guide, TLS, attacks on sockets."""

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.experiments.live.federation import LiveFederation
from fedforest.runtime.membership.service_tokens import FILE, ServiceTokens
from fedforest.runtime.messages.orders import (
    AlignRows,
    ListRuns,
    StandingName,
    TrainVertical,
    WithdrawModel,
)
from fedforest.runtime.messages.results import Alignment, ModelList, RunList, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "http-api.md"
DATA = {"bank": "customers", "shop": "customers"}
RUN_TOML = """
protocol = "vertical"
align = { standing = "customers" }
parties = { bank = "customers", shop = "customers" }
label = { column = "label", party = "bank" }
parameters = { n_estimators = 2, max_depth = 2, min_samples_leaf = 5 }
"""


def make_tables() -> dict[str, dict[str, pyarrow.Table]]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    label = np.where(X[:, 0] + X[:, 1] > 0, "leaves", "stays")
    tables = {}
    for number, party in enumerate(DATA):
        order = rng.permutation(60)
        own: dict[str, Any] = {"id": [f"C-{1000 + row}" for row in order]}
        own |= {f"x{number + k}": X[order, number + k] for k in (0, 2)}
        own |= {} if number else {"label": label[order]}
        tables[party] = {"customers": pyarrow.table(own)}
    return tables


class Served(NamedTuple):
    """A federation whose coordinator answers over HTTPS, a model, and a token."""

    federation: LiveFederation
    url: str
    model: str
    token: str
    authority: Path

    def curl(self, line: str, **names: str) -> str:
        """Run a curl line with the names of the guide, trusting the federation's authority."""
        port = self.url.rsplit(":", 1)[1]
        host = "coordinator.experiment.fedforest"
        trust = f"--cacert {self.authority} --resolve {host}:{port}:127.0.0.1 --max-time 60"
        known = {"URL": f"https://{host}:{port}", "TOKEN": self.token, "MODEL": self.model}
        command = line.replace("curl ", f"curl {trust} ", 1)
        done = subprocess.run(
            ["bash", "-c", command],
            env={"PATH": "/usr/bin:/bin", **known, **names},
            cwd=self.federation.folder,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.authority))
        plain = socket.create_connection(("127.0.0.1", int(self.url.rsplit(":", 1)[1])), timeout=30)
        return context.wrap_socket(plain, server_hostname="coordinator.experiment.fedforest")

    def send(self, *parts: bytes) -> bytes:
        """Send bytes as they are, and return all that comes back."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        return answer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("http")
    tls = folder / "coordinator" / "tls"
    options: tuple[str, ...] = ("--http-api", "--web-address", "127.0.0.1:0", "--web-certificate")
    options += (str(tls / "certificate.pem"), "--web-key", str(tls / "key.pem"))
    options += ("--web-name", "coordinator.experiment.fedforest")
    with LiveFederation(
        folder,
        make_tables(),
        id_column="id",
        rules='standing_serving = "ids"',
        coordinator_options=options,
    ) as federation:
        with federation.connect() as client:
            client.train(AlignRows(data=DATA, method="psi", name="customers"), Alignment)
            order = TrainVertical(
                data=DATA,
                label="label",
                label_party="bank",
                parameters=ForestParameters(n_estimators=5, max_depth=4),
                align=StandingName("customers"),
                seed=0,
            )
            model = client.train(order, VerticalResult).model
        token = ServiceTokens(folder / "coordinator" / FILE).issue("guide", user="analyst")
        url = federation.coordinator.log.read_text().split("HTTP API at ")[1].split("/v1")[0]
        (folder / "run.toml").write_text(RUN_TOML)
        yield Served(federation, url, model, token, tls / "authority.pem")


def guide_lines() -> list[str]:
    """The commands of the guide that start with curl, each as one line."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.startswith("curl ")]


def test_the_curl_lines_of_the_guide_do_what_it_says(served: Served) -> None:
    predict, begin, watch, show, models = guide_lines()
    predict = predict.replace("C-7731", "C-9999")  # which no party has
    answer = json.loads(served.curl(predict))
    assert answer["predictions"][0] in ("leaves", "stays")
    assert answer["predictions"][1] is None
    assert len(answer["probabilities"][0]) == 2
    run = json.loads(served.curl(begin))["run"]
    events = served.curl(watch, RUN=run)
    assert '"state":"finished"' in events.rpartition("data: ")[2]
    assert json.loads(served.curl(show, RUN=run))["state"] == "finished"
    ids = [model["id"] for model in json.loads(served.curl(models))["models"]]
    assert ids == [served.model, run]
    with served.federation.connect() as client:
        runs = client.ask(ListRuns(), RunList).runs
    assert run in [each.run for each in runs], "the run is the user's own, over gRPC too"


def predict_by_command(served: Served, *named: str) -> list[dict[str, Any]]:
    """What `fedforest predict` writes of the rows that are named, by a user who signs orders."""
    out = served.federation.folder / "chosen.csv"
    words = ["predict", served.model, "--standing", "customers", *named, "--out", str(out)]
    profile = {"FEDFOREST_PROFILE": str(served.federation.folder / "user")}
    outcome = CliRunner().invoke(app, words, env=profile)
    assert outcome.exit_code == 0, f"{outcome.output}{outcome.exception}"
    written: list[dict[str, Any]] = pyarrow.csv.read_csv(out).to_pylist()
    return written


def test_commands_predict_chosen_rows_as_the_http_api_does(served: Served) -> None:
    asked = ["C-1042", "C-9999", "C-1007", "C-1042"]
    line = guide_lines()[0].replace('"C-1042", "C-7731"', json.dumps(asked)[1:-1])
    told = json.loads(served.curl(line))
    written = predict_by_command(served, *(word for each in asked for word in ("--id", each)))
    assert [row["id"] for row in written] == asked
    assert [row["predicted"] or None for row in written] == told["predictions"]
    votes = [row["probability_leaves"] for row in written]
    assert votes[1] is None
    assert [votes[0], votes[2], votes[3]] == pytest.approx(
        [told["probabilities"][place][0] for place in (0, 2, 3)]
    )
    few = served.federation.folder / "few.csv"
    few.write_text("customer\n" + "\n".join(asked))
    by_file = predict_by_command(served, "--only", str(few), "--id-party", "shop")
    assert [row.pop("customer") for row in by_file] == [row.pop("id") for row in written]
    assert by_file == written
    numbered = predict_by_command(served, "--row", "5", "--row", "0", "--row", "5")
    assert [row["row"] for row in numbered] == [5, 0, 5]
    assert numbered[0] == numbered[2]
    by_number = served.curl(guide_lines()[0].replace('"ids": ["C-1042", "C-7731"]', '"rows": [5]'))
    assert numbered[0]["predicted"] == json.loads(by_number)["predictions"][0]


def test_rows_are_chosen_in_one_way_and_under_an_alignment(served: Served) -> None:
    profile = {"FEDFOREST_PROFILE": str(served.federation.folder / "user")}
    for words, text in {
        ("--id", "x"): "standing alignment",
        ("--standing", "customers", "--id", "x", "--row", "0"): "in one way",
        ("--standing", "customers", "--row", "0", "--home", "."): "leave --home",
        ("--standing", "other", "--row", "0"): "there is no standing alignment",
        (): "name the rows",
    }.items():
        outcome = CliRunner().invoke(
            app, ["predict", served.model, *words, "--out", "x.csv"], env=profile
        )
        assert outcome.exit_code == 2, outcome.output
        assert text in " ".join(outcome.output.replace("│", " ").split())


def request(path: str, token: str, body: bytes, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: coordinator.experiment.fedforest",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        "Connection: close",
        *(headers or (f"Content-Length: {len(body)}",)),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_header_games_at_the_socket_are_refused(served: Served) -> None:
    path, body = f"/v1/models/{served.model}/predictions", b'{"rows": [0]}'
    good = served.send(request(path, served.token, body))
    assert good.startswith(b"HTTP/1.1 200")
    games = {
        "two lengths": ("Content-Length: 13", "Content-Length: 5"),
        "length and chunks": ("Content-Length: 13", "Transfer-Encoding: chunked"),
        "folded": ("Content-Length: 13", " X: y"),
        "negative": ("Content-Length: -1",),
    }
    for name, headers in games.items():
        answer = served.send(request(path, served.token, body, *headers))
        assert not answer.startswith(b"HTTP/1.1 200"), name
    other = request(path, served.token, body).replace(b"coordinator.experiment", b"evil.example", 1)
    assert served.send(other).startswith(b"HTTP/1.1 421")
    for more in (["X: " + "a" * (1 << 17)], [f"X{n}: {'a' * 1000}" for n in range(100)]):
        long = request(path, served.token, body, "Content-Length: 13", *more)
        assert served.send(long).startswith(b"HTTP/1.1 400")


def test_a_slow_body_holds_up_nobody_else(served: Served) -> None:
    path, body = f"/v1/models/{served.model}/predictions", b'{"rows": [0]}'
    slow = [served.connect() for _ in range(20)]
    try:
        for connection in slow:
            connection.sendall(request(path, served.token, b"{", "Content-Length: 1000"))
        started = time.monotonic()
        assert served.send(request(path, served.token, body)).startswith(b"HTTP/1.1 200")
        assert time.monotonic() - started < 15
    finally:
        for connection in slow:
            connection.close()


def test_removed_tokens_and_withdrawn_models_answer_nothing_more(served: Served) -> None:
    """A request that was recorded is of no use once its token is gone, or its model."""
    tokens = ServiceTokens(served.federation.folder / "coordinator" / FILE)
    word = tokens.issue("short", user="analyst")
    time.sleep(1.5)  # the file is looked at every second
    recorded = request(f"/v1/models/{served.model}/predictions", word, b'{"rows": [0]}')
    assert served.send(recorded).startswith(b"HTTP/1.1 200")
    tokens.remove("short")
    time.sleep(1.5)  # within a second, as the guide says
    assert served.send(recorded).startswith(b"HTTP/1.1 401")
    with served.federation.connect() as client:
        client.ask(WithdrawModel(model=served.model), ModelList)
    path = f"/v1/models/{served.model}/predictions"
    answer = served.send(request(path, served.token, b'{"rows": [0]}'))
    assert not answer.startswith(b"HTTP/1.1 200")
    assert b"withdr" in answer
