"""Many exchanges leave nothing behind: memory and file descriptors stay as they are."""

import gc
import os
from pathlib import Path

import pytest

from fedforest.errors import DataError
from tests.transport.grpc_federations import DEADLINE_SECONDS, GrpcFederation, wait_until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="reads the size of the process from /proc"
)

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def n_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_memory_stays_flat_over_many_exchanges() -> None:
    data = os.urandom(400_000)
    with GrpcFederation() as federation:
        for name in ("bank", "shop"):
            federation.join(name)

        def exchange(n_times: int) -> None:
            for _ in range(n_times):
                federation.hub.exchange({"bank": data, "shop": data})

        exchange(50)
        before = resident_bytes()
        exchange(300)  # 480 MB, were anything kept
        assert resident_bytes() - before < 30 * 2**20
        assert federation.hub._exchanges.n_open == 0


def test_errors_and_lost_parties_leave_nothing_behind() -> None:
    def fail(_: bytes) -> bytes:
        raise DataError("no")

    data = os.urandom(3 * 2**20)
    with GrpcFederation() as federation:
        federation.join("bank", fail)
        federation.join("shop")

        def disturb(n_times: int) -> None:
            for _ in range(n_times):
                with pytest.raises(DataError):
                    federation.hub.exchange({"shop": data, "bank": data})
                federation.hub.exchange({"club": data}, may_lose=True, patience_seconds=0)
                federation.hub.exchange({"shop": b""})  # what it was asked before is over

        disturb(10)
        before = resident_bytes()
        disturb(40)
        assert resident_bytes() - before < 30 * 2**20  # of 240 MB that went out
        assert federation.hub._exchanges.n_open == 0
        stream = federation.hub._presence.find("shop")
        assert stream is not None
        wait_until(lambda: stream.inbox.n_unfinished == 0, "no half messages")


def test_connections_that_come_and_go_leave_no_files_open() -> None:
    with GrpcFederation() as federation:

        def come_and_go(n_times: int) -> None:
            for _ in range(n_times):
                federation.join("bank")
                federation.stop_last()
                wait_until(lambda: federation.hub.connected() == [], "it has left")

        come_and_go(3)
        before = n_open_files()
        come_and_go(10)
        wait_until(lambda: n_open_files() <= before, "sockets are closed", DEADLINE_SECONDS)
