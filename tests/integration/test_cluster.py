"""Parties of a live federation whose rows are on Dask clusters of their own."""

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.integration.federation_folder import Role, wait_for
from tests.integration.processes import AnyResult, Processes, start_processes
from tests.integration.samples import vertical

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Two parties; the second keeps its rows in two workers."""
    with start_processes(tmp_path_factory.mktemp("cluster"), 2, is_started=False) as processes:
        processes.folder.parties[list(processes.folder.parties)[1]].options = (
            "--compute",
            "dask:2",
        )
        processes.folder.start()
        yield processes


def workers_of(role: Role) -> list[int]:
    """The worker processes of a party, which Dask starts by spawning."""
    assert role.process is not None
    children = psutil.Process(role.process.pid).children(recursive=True)
    return [
        child.pid for child in children if any("spawn_main" in word for word in child.cmdline())
    ]


def test_a_live_party_on_a_cluster_trains_the_same_model_though_a_worker_is_killed(
    clustered: Processes,
) -> None:
    role = list(clustered.folder.parties.values())[1]
    wait_for(lambda: len(workers_of(role)) == 2, clustered.folder)
    order = vertical(2, n_trees=8, out_of_bag=True)
    results: list[AnyResult] = []
    training = threading.Thread(target=lambda: results.append(clustered.train(order)))
    training.start()
    os.kill(workers_of(role)[0], signal.SIGKILL)
    training.join(timeout=240)
    assert len(results) == 1
    clustered.check(order, results[0])


def test_workers_end_with_their_party(clustered: Processes) -> None:
    role = list(clustered.folder.parties.values())[1]
    clustered.folder.start()
    workers = [psutil.Process(pid) for pid in workers_of(role)]
    assert workers
    process: Any = role.process
    process.kill()  # not even asked to end
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
