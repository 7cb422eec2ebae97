"""A stranger, or a member, wants honest parties to find no room at the coordinator."""

import contextlib
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from fedforest.errors import PartyLost, TransportError
from fedforest.transport.frames import PIECE_BYTES, Welcome, decode_frame
from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.transport.grpc.client import GrpcClient
from fedforest.transport.grpc.connections import most_connections, read_peer
from fedforest.transport.tls import Credentials
from tests.integration.federation_folder import Role, make_federation, running, wait_for
from tests.integration.samples import divide
from tests.transport.grpc_federations import (
    DAY,
    DEADLINE_SECONDS,
    GrpcFederation,
    RawParty,
    wait_until,
)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the system does not list descriptors"
)
N_DESCRIPTORS = 256
N_SILENT = 300

# Run with a lower hard limit than the system's, which the process cannot raise.
LIMITED_COMMAND = (
    sys.executable,
    "-c",
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, "
    f"({N_DESCRIPTORS // 2}, {N_DESCRIPTORS})); os.execv(sys.argv[1], sys.argv[1:])",
    sys.executable,
    "-m",
    "fedforest",
)


class Flood:
    """So many connections of somebody who says this and nothing more; who is cut comes again."""

    def __init__(self, address: str, n_connections: int, says: bytes) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._says = (host, int(port)), says
        self._sockets = [self._open() for _ in range(n_connections)]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_on)

    def __enter__(self) -> "Flood":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS)
        for one in self._sockets:
            one.close()

    def _open(self) -> socket.socket:
        one = socket.create_connection(self._address, 5.0)
        with contextlib.suppress(OSError):
            one.sendall(self._says)
        one.settimeout(0.0)
        return one

    def _keep_on(self) -> None:
        while not self._is_over.wait(0.05):
            for place, one in enumerate(self._sockets):
                if is_cut(one):
                    one.close()
                    with contextlib.suppress(OSError):
                        self._sockets[place] = self._open()


def is_cut(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def n_known(federation: GrpcFederation) -> int:
    """How many connections are members'."""
    return len(federation.hub._connections._members)


def n_descriptors(role: Role) -> int:
    assert role.process is not None
    return len(os.listdir(f"/proc/{role.process.pid}/fd"))


@pytest.mark.parametrize("says", [b"", b"\x16\x03\x01\x02\x00"], ids=["nothing", "a few bytes"])
def test_silent_connections_keep_no_party_out_of_a_service_with_few_descriptors(
    tmp_path: Path, says: bytes
) -> None:
    pattern = make_federation(tmp_path, divide(2), command=LIMITED_COMMAND)
    with running(pattern) as federation:
        party = next(iter(federation.parties.values()))
        party.kill()
        wait_for(lambda: not federation.is_connected(party.name), federation)
        with Flood(federation.address, N_SILENT, says):
            party.start()
            wait_for(lambda: federation.is_connected(party.name), federation, DEADLINE_SECONDS)
            assert n_descriptors(federation.coordinator) < N_DESCRIPTORS * 3 // 4
        assert all(map(federation.is_connected, federation.parties))


def test_a_service_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path, divide(1), command=LIMITED_COMMAND)
    with running(pattern) as federation:
        process = federation.coordinator.process
        assert process is not None
        limits = Path(f"/proc/{process.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(N_DESCRIPTORS), str(N_DESCRIPTORS)]


def test_many_handshakes_at_once_do_not_end_the_process(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path, divide(1))
    with running(pattern) as federation:
        host, _, port = federation.address.rpartition(":")

        def knock(_: int) -> None:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5.0):
                pass

        with ThreadPoolExecutor(32) as threads:
            list(threads.map(knock, range(3000)))
        assert federation.coordinator.is_running
        assert all(map(federation.is_connected, federation.parties))


def test_a_connection_that_says_nothing_is_shut_and_those_of_members_stay() -> None:
    limits = ChannelLimits(greeting_seconds=1.0)
    with GrpcFederation(limits=limits) as federation:
        federation.join("bank")
        host, _, port = federation.hub.address.rpartition(":")
        with socket.create_connection((host, int(port))) as silent:
            silent.settimeout(0.0)
            wait_until(lambda: is_cut(silent), "it is shut")
        assert federation.hub.connected() == ["bank"]
        assert federation.hub.exchange({"bank": b"x"}) == {"bank": b"x"}


def test_a_crowd_of_one_address_is_cut_down_to_what_one_may_have() -> None:
    limits = ChannelLimits(unknown_of_one_host=4)
    with GrpcFederation(limits=limits) as federation:
        host, _, port = federation.hub.address.rpartition(":")
        with contextlib.ExitStack() as stack:
            crowd = [
                stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(20)
            ]
            for one in crowd:
                one.settimeout(0.0)
            wait_until(lambda: sum(map(is_cut, crowd)) == 16, "the oldest are shut")
            assert [is_cut(one) for one in crowd] == [True] * 16 + [False] * 4
            federation.join("bank")


def test_one_member_takes_no_more_connections_than_it_may() -> None:
    limits = ChannelLimits(connections_of_one_member=3)
    with GrpcFederation(limits=limits) as federation, contextlib.ExitStack() as stack:
        bank = federation.issue("bank")
        for number in range(1, 4):
            stack.enter_context(RawParty(federation.hub.address, bank, "bank"))
            wait_until(lambda n=number: n_known(federation) == n, "it is in")  # type: ignore[misc] # bound now
        one_more = stack.enter_context(RawParty(federation.hub.address, bank, "bank"))
        with pytest.raises(grpc.RpcError) as caught:
            list(one_more.frames())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        federation.join("shop")


def test_one_user_takes_no_more_calls_than_it_may() -> None:
    is_over = threading.Event()

    def serve(_identity: object, _request: bytes) -> Iterator[bytes]:
        yield b"begun"
        is_over.wait(DEADLINE_SECONDS)

    limits = ChannelLimits(calls_of_one_user=4)
    with GrpcFederation(limits=limits, serve_client=serve) as federation:
        greedy = federation.authority.issue("user", "greedy", DAY)
        other = federation.authority.issue("user", "other", DAY)
        with contextlib.ExitStack() as stack:
            stack.callback(is_over.set)

            def call(credentials: Credentials) -> bytes:
                client = stack.enter_context(GrpcClient(federation.hub.address, credentials))
                calls.append(client.submit(b"x"))
                return next(calls[-1])

            calls: list[Iterator[bytes]] = []
            assert [call(greedy) for _ in range(4)] == [b"begun"] * 4
            with pytest.raises(TransportError, match="too many calls"):
                call(greedy)
            assert call(other) == b"begun"


def test_a_party_that_comes_again_and_again_is_let_in_at_a_pace() -> None:
    with GrpcFederation() as federation:
        bank = federation.issue("bank")
        started = time.monotonic()
        for _ in range(10):
            with RawParty(federation.hub.address, bank, "bank") as raw:
                assert isinstance(decode_frame(next(raw.call)), Welcome)
        assert time.monotonic() - started > 0.1 * 9
        federation.join("shop")


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("ipv4:127.0.0.1:4000", ("127.0.0.1", 4000)),
        ("ipv6:%5B::1%5D:4000", ("::1", 4000)),
        ("ipv6:[::ffff:127.0.0.1]:4000", ("127.0.0.1", 4000)),
        ("ipv6:%5Bfe80::1%25eth0%5D:4000", ("fe80::1", 4000)),
        ("unix:", ("", 0)),
    ],
)
def test_the_other_end_of_a_connection_is_known_in_one_form(
    peer: str, place: tuple[str, int]
) -> None:
    assert read_peer(peer) == place


def test_files_keep_half_of_all_descriptors() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_connections() == min(2048, soft // 2)


def test_a_party_that_reads_nothing_is_gone_when_it_is_cut_off() -> None:
    with GrpcFederation() as federation, ThreadPoolExecutor(1) as threads:
        bank = federation.issue("bank")
        with RawParty(federation.hub.address, bank, "bank"):
            federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
            large = {"bank": bytes(32 * PIECE_BYTES)}
            asked = threads.submit(federation.hub.exchange, large, patience_seconds=1.0)
            time.sleep(0.5)  # until no more fits between the two
            federation.hub.revoke(bank.identity)
            with pytest.raises(PartyLost, match="bank"):
                asked.result(20.0)
            wait_until(lambda: n_known(federation) == 0, "its connection is shut")


def test_a_user_that_stops_reading_holds_no_thread() -> None:
    def serve(_identity: object, _request: bytes) -> Iterator[bytes]:
        while True:
            yield bytes(2**20)

    with GrpcFederation(
        limits=ChannelLimits(reading_seconds=1.0), serve_client=serve
    ) as federation:
        slow = federation.authority.issue("user", "slow", DAY)
        with GrpcClient(federation.hub.address, slow) as client:
            events = client.submit(b"x")
            next(events)
            clients = federation.hub._clients
            assert clients is not None
            wait_until(lambda: clients.n_calls == 0, "the call is cut")
            with pytest.raises(TransportError):
                list(events)


def test_a_user_sends_no_more_than_a_request_may_have() -> None:
    def serve(_identity: object, request: bytes) -> Iterator[bytes]:
        yield str(len(request)).encode()

    limits = ChannelLimits(max_request_bytes=2 * PIECE_BYTES)
    with GrpcFederation(limits=limits, serve_client=serve) as federation:
        ann = federation.authority.issue("user", "ann", DAY)
        with GrpcClient(federation.hub.address, ann) as client:
            assert list(client.submit(bytes(2 * PIECE_BYTES))) == [str(2 * PIECE_BYTES).encode()]
            with pytest.raises(TransportError, match="longer than"):
                list(client.submit(bytes(2 * PIECE_BYTES + 1)))
