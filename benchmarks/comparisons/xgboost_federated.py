"""XGBoost's own federation, by columns or rows, in forest mode: seconds from connected to trained.

Its server has no host option and listens on every interface, so it is started in a network
namespace that holds nothing but loopback, and in no other place: `measure` makes the namespace and
runs this file in it, with one process for the server and one for each party. They all end with
the process that made the namespace, at the latest at its deadline.
"""

import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import contestants
from benchmarks.measure import ROOT, timed
from benchmarks.tasks import ForestSettings, Split

MODULE = "benchmarks.comparisons.xgboost_federated"
N_PARTIES = 2
PORT = 40_000  # free: nobody else is in the namespace
DEADLINE_SECONDS = 300.0
CONNECT_SECONDS = 30.0
# Root in a user namespace of its own; children end with the first process.
NAMESPACE = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
GET_FLAGS, SET_FLAGS, IS_UP = 0x8913, 0x8914, 0x1  # netdevice(7)
THREADS_PER_PARTY = 1  # two parties on the two cores that ours has
# What is divided among the parties -> XGBoost's name for it.
SPLIT_MODES = {"columns": "COL", "rows": "ROW"}


def reason_absent() -> str | None:
    """Why the comparison cannot be made here; None when it can."""
    reason = contestants.reason_absent(contestants.BY_NAME["XGBoost"])
    if reason is not None:
        return reason
    if shutil.which(NAMESPACE[0]) is None:
        return "there is no `unshare` to make a network namespace with"
    attempt = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    if attempt.returncode != 0:
        return "network namespaces are not permitted here, and its server must not run elsewhere"
    return None


def measure(
    split: Split, forest: ForestSettings, repeats: int, divided: str = "columns"
) -> dict[str, Any]:
    """Seconds and accuracy of each repeat; or, under `reason`, why there are none."""
    reason = reason_absent()
    if reason is not None:
        return {"reason": reason}
    with tempfile.TemporaryDirectory() as folder:
        for name, table in split._asdict().items():
            np.save(Path(folder) / f"{name}.npy", table)
        request = {"folder": folder, "repeats": repeats, "kind": forest.kind}
        request |= {"n_trees": forest.n_trees, "max_depth": forest.max_depth, "divided": divided}
        return _run_in_namespace(request)


def _run_in_namespace(request: dict[str, Any]) -> dict[str, Any]:
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    try:
        outcome = subprocess.run(
            [*NAMESPACE, sys.executable, "-m", MODULE, "federation"],
            input=json.dumps(request),
            env={**os.environ, "PYTHONPATH": python_path},
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"it had not ended after {DEADLINE_SECONDS:.0f} s"}
    if outcome.returncode != 0:
        last = (outcome.stderr.strip().splitlines() or ["no message"])[-1]
        return {"reason": f"it failed: {last}"}
    answer: dict[str, Any] = json.loads(outcome.stdout.splitlines()[-1])
    return answer


def run_federation(request: dict[str, Any]) -> dict[str, Any]:
    """Inside the namespace: start server and parties, wait for all, join what they measured."""
    isolate()
    server = _start("server", request)
    parties = []
    try:
        _wait_for_server(server)
        parties = [_start(f"party {rank}", request) for rank in range(N_PARTIES)]
        answers = [_answer(party) for party in parties]
    finally:
        for process in (*parties, server):
            process.kill()
            process.wait()
    walls = [max(walls) for walls in zip(*(answer["wall"] for answer in answers), strict=True)]
    cpus = [sum(cpus) for cpus in zip(*(answer["cpu"] for answer in answers), strict=True)]
    return {"wall": walls, "cpu": cpus, "score": answers[0]["score"]}


def isolate() -> None:
    """Switch loopback on, and refuse to go on if there is any other interface."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        raise SystemExit("the namespace holds more than loopback; the server is not started")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack("16xH22x", fcntl.ioctl(control, GET_FLAGS, asked))
        fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH22x", b"lo", flags | IS_UP))


def _start(role: str, request: dict[str, Any]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, *role.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(request))
    process.stdin.close()
    return process


def _wait_for_server(server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + CONNECT_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit("its server ended before anyone connected")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("its server did not listen in time")


def _answer(party: subprocess.Popen[str]) -> dict[str, Any]:
    assert party.stdout is not None
    lines = party.stdout.read().splitlines()
    if party.wait() != 0 or not lines:
        raise SystemExit("one of its parties failed")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def serve() -> None:
    """The server; ends when all parties have left."""
    from xgboost import federated  # noqa: PLC0415 - in its own process only

    federated.run_federated_server(n_workers=N_PARTIES, port=PORT)


class Share(NamedTuple):
    """What one party holds."""

    train: NDArray[Any]
    labels: NDArray[Any] | None
    test: NDArray[Any]


def take_share(tables: dict[str, NDArray[Any]], divided: str, rank: int) -> Share:
    """Half of the rows with their labels; or half of the columns, labels at the first party only.

    Whoever trains on rows of its own has a whole model and predicts all rows by itself.
    """
    train, test, labels = (tables[name] for name in ("X_train", "X_test", "y_train"))
    if divided == "rows":
        mine = np.array_split(np.arange(len(train)), N_PARTIES)[rank]
        return Share(train[mine], labels[mine], test)
    mine = np.array_split(np.arange(train.shape[1]), N_PARTIES)[rank]
    train, test = (np.ascontiguousarray(table[:, mine]) for table in (train, test))
    return Share(train, labels if rank == 0 else None, test)


def take_part(request: dict[str, Any], rank: int) -> dict[str, Any]:
    """One party: trains and scores with the other one, once for each repeat."""
    import xgboost  # noqa: PLC0415 - in its own process only

    folder = Path(request["folder"])
    tables = {name: np.load(folder / f"{name}.npy") for name in Split._fields}
    share = take_share(tables, request["divided"], rank)
    split_mode = xgboost.core.DataSplitMode[SPLIT_MODES[request["divided"]]]
    forest = ForestSettings(request["kind"], request["n_trees"], request["max_depth"])
    parameters = contestants.XGBoostForest(forest, 0).parameters(
        tables["X_train"].shape[1], len(np.unique(tables["y_train"]))
    )
    parameters["nthread"] = THREADS_PER_PARTY
    answer: dict[str, Any] = {"wall": [], "cpu": [], "score": []}

    def as_table(X: NDArray[Any], labels: NDArray[Any] | None = None) -> Any:
        return xgboost.DMatrix(X, labels, data_split_mode=split_mode, nthread=THREADS_PER_PARTY)

    with xgboost.collective.CommunicatorContext(
        dmlc_communicator="federated",
        federated_server_address=f"127.0.0.1:{PORT}",
        federated_world_size=N_PARTIES,
        federated_rank=rank,
    ):
        for repeat in range(request["repeats"]):
            parameters["seed"] = repeat
            booster, cost = timed(
                lambda: xgboost.train(parameters, as_table(share.train, share.labels), 1)
            )
            predicted = booster.predict(as_table(share.test)) > 0.5
            answer["wall"].append(cost.wall)
            answer["cpu"].append(cost.cpu)
            answer["score"].append(float(np.mean(predicted == tables["y_test"])))
    return answer


def main(role: str, *more: str) -> None:
    # Dies with its parent, whatever happens to it: prctl(2), PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, 9)
    request = json.load(sys.stdin)
    if role == "server":
        serve()
    elif role == "party":
        print(json.dumps(take_part(request, int(more[0]))))
    else:
        print(json.dumps(run_federation(request)))


if __name__ == "__main__":
    main(*sys.argv[1:])
