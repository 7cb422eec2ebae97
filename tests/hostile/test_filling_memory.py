"""A party or a user wants the coordinator to run out of memory."""

import gc
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import grpc
import msgspec
import numpy as np
import pytest

from fedforest.errors import (
    AccessRefused,
    FederationError,
    ProtocolError,
    RemoteProtocolError,
    TransportError,
)
from fedforest.protocol.asking import Message
from fedforest.protocol.scoring.payloads import ScoreSheet
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.orders import WatchRun, encode_order
from fedforest.transport.frames import PIECE_BYTES
from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.tree.table.targets import MAX_CLASSES
from tests.hostile.lying_parties import federation_with, let_lie
from tests.integration.processes import result_type
from tests.runtime.service_recordings import vertical_order
from tests.transport.grpc_federations import DEADLINE_SECONDS, GrpcFederation, RawParty, answer

N_BYTES = 64 * 2**20
N_RUNS = 5


def resident_bytes() -> int:
    """What the process holds in memory now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say")


def fill(request: Message, honest: bytes) -> bytes:
    return b"\x01" * N_BYTES if isinstance(request, RunRequest) else honest


def test_answers_of_failed_runs_do_not_stay_in_memory(tmp_path: Path) -> None:
    order = vertical_order()
    with federation_with(tmp_path) as federation:
        let_lie(federation, "shop", fill)
        before = 0
        for number in range(1, N_RUNS + 1):
            with pytest.raises(RemoteProtocolError, match="shop"):
                federation.ask(order, result_type(order), number.to_bytes(16))
            gc.collect()
            before = before or resident_bytes()
        assert resident_bytes() - before < N_BYTES // 2


def test_watching_a_failed_run_again_and_again_adds_nothing_to_its_error(tmp_path: Path) -> None:
    order = vertical_order()
    with federation_with(tmp_path) as federation:
        let_lie(federation, "shop", fill)
        run = bytes(15) + b"\x07"
        with pytest.raises(RemoteProtocolError):
            federation.ask(order, result_type(order), run)
        for _ in range(3):
            with pytest.raises(RemoteProtocolError) as caught:
                federation.ask(WatchRun(run=run.hex()), result_type(order))
            assert frames_with_payloads(caught.value) == 0


def frames_with_payloads(error: FederationError) -> int:
    """How many local variables behind an error are as large as the answer."""
    found, trace = 0, error.__traceback__
    while trace is not None:
        values = trace.tb_frame.f_locals.values()
        found += sum(isinstance(value, bytes) and len(value) >= N_BYTES for value in values)
        trace = trace.tb_next
    assert error.__context__ is None
    assert error.__cause__ is None
    return found


@pytest.mark.parametrize("data", [b"", b"x"], ids=["empty", "one byte"])
def test_a_message_of_endless_short_pieces_ends_at_the_first(data: bytes) -> None:
    with GrpcFederation() as federation, ThreadPoolExecutor(1) as threads:
        with RawParty(federation.hub.address, federation.issue("bank"), "bank") as raw:
            federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
            asked = threads.submit(federation.hub.exchange, {"bank": b"question"})
            request = raw.next_request()
            with suppress(AssertionError):  # the stream has ended meanwhile
                for index in range(1000):
                    raw.send(answer(request.request_id, data, index=index, is_last=False))
            with pytest.raises(RemoteProtocolError, match="not full") as caught:
                asked.result(DEADLINE_SECONDS)
        assert caught.value.party == "bank"


def test_requests_that_wait_at_a_party_have_no_more_bytes_than_one_may_have() -> None:
    limits, is_free = ChannelLimits(max_message_bytes=4 * PIECE_BYTES), threading.Event()

    def answer_later(request: bytes) -> bytes:
        is_free.wait(DEADLINE_SECONDS)
        return request[:1]

    with GrpcFederation(limits=limits) as federation, ThreadPoolExecutor(8) as threads:
        federation.join("bank", answer_later)
        large = {"bank": bytes(PIECE_BYTES)}
        try:
            asked = [threads.submit(federation.hub.exchange, large) for _ in range(7)]
            refused, _ = wait(asked, DEADLINE_SECONDS, FIRST_COMPLETED)
            with pytest.raises(TransportError, match="too many requests"):
                refused.pop().result()
        finally:
            is_free.set()


def test_a_compressed_frame_grows_to_no_more_than_a_frame_may_have() -> None:
    gzip = [("grpc.default_compression_algorithm", 2), ("grpc.max_send_message_length", -1)]
    with GrpcFederation() as federation:
        bank = federation.issue("bank")
        with RawParty(federation.hub.address, bank, "bank", options=gzip) as raw:
            federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
            raw.send(answer(1, bytes(64 * PIECE_BYTES)))
            with pytest.raises(grpc.RpcError) as caught:
                list(raw.frames())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_one_user_does_not_fill_the_queue(tmp_path: Path) -> None:
    order = msgspec.structs.replace(vertical_order(), data={"bank": "columns", "away": "columns"})
    with federation_with(tmp_path, limits=LimitsOfUsers(most_queued_runs=2)) as federation:
        answers = []
        for number in range(1, 3):  # the first waits for a party, the second for the first
            federation.next_run = number.to_bytes(16)
            answers.append(federation.coordinator.serve("greedy", encode_order(order)))
            next(answers[-1])
        federation.next_run = (3).to_bytes(16)
        with pytest.raises(AccessRefused, match="most_queued_runs"):
            next(federation.coordinator.serve("greedy", encode_order(order)))
        other = federation.coordinator.serve("modest", encode_order(order))
        next(other)


def test_a_matrix_of_more_classes_than_there_can_be_is_refused() -> None:
    size = MAX_CLASSES + 2
    counts = np.zeros((size, size), "<i8")
    counts[0, 0] = 1
    figures = np.full(5, np.nan).data
    sheet = ScoreSheet(1, figures.cast("B"), counts.data.cast("B"))
    with pytest.raises(ProtocolError, match="too many classes"):
        sheet.read(is_regression=False)
