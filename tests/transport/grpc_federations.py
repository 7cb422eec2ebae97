"""Coordinators and parties that talk over gRPC, in threads of the test or by frames of its own."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from fedforest.transport.authority import make_authority
from fedforest.transport.frames import (
    PROTOCOL_VERSION,
    Frame,
    Hello,
    Piece,
    Probe,
    Welcome,
    decode_frame,
    encode_frame,
)
from fedforest.transport.grpc.channel import CONVERSE, ChannelLimits, method_of, open_channel
from fedforest.transport.grpc.client_calls import ServeClient
from fedforest.transport.grpc.coordinator import GrpcHub, Renew
from fedforest.transport.grpc.outbox import Outbox
from fedforest.transport.grpc.party import Endpoint, GrpcLink
from fedforest.transport.identity import Identity
from fedforest.transport.tls import Credentials

DAY = timedelta(days=1)
DEADLINE_SECONDS = 60.0  # of every wait; tests share their machine


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    """Look again and again, but not for ever."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds} seconds: {what}"
        time.sleep(0.01)


class GrpcFederation:
    """A coordinator and any number of parties; all of them end with the block."""

    def __init__(
        self,
        *,
        limits: ChannelLimits | None = None,
        serve_client: ServeClient | None = None,
        renew: Renew | None = None,
        is_revoked: Callable[[Identity], bool] = lambda _: False,
        coordinator_life: timedelta = DAY,
    ) -> None:
        self.authority = make_authority("testing", DAY)
        self.coordinator = self.authority.issue("coordinator", "main", coordinator_life)
        self.limits = limits
        self.hub = GrpcHub(
            self.coordinator,
            serve_client=serve_client,
            renew=renew,
            is_revoked=is_revoked,
            limits=limits,
        )
        self._running: list[tuple[threading.Event, threading.Thread]] = []

    def __enter__(self) -> "GrpcFederation":
        self.hub.start()
        return self

    def __exit__(self, *_: object) -> None:
        for stop, _thread in self._running:
            stop.set()
        self.hub.close()
        for _stop, thread in self._running:
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive()

    def issue(self, name: str) -> Credentials:
        return self.authority.issue("party", name, DAY)

    def link(
        self,
        name: str,
        endpoint: Endpoint = bytes,
        *,
        address: str | None = None,
        credentials: Credentials | None = None,
    ) -> GrpcLink:
        """A party's link, running on a thread."""
        link = GrpcLink(
            address or self.hub.address,
            credentials or self.issue(name),
            name,
            endpoint,
            limits=self.limits,
        )
        stop = threading.Event()
        thread = threading.Thread(target=link.run, args=(stop,), daemon=True)
        thread.start()
        self._running.append((stop, thread))
        return link

    def join(self, name: str, endpoint: Endpoint = bytes, **options: Any) -> GrpcLink:
        """A link that is connected."""
        link = self.link(name, endpoint, **options)
        self.hub.wait_for_parties([name], DEADLINE_SECONDS)
        return link

    def stop_last(self) -> None:
        """End the party that joined last, as an operator would."""
        stop, thread = self._running.pop()
        stop.set()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()


class RawParty:
    """A party that says what the test wants, frame by frame."""

    def __init__(
        self, address: str, credentials: Credentials, name: str, options: Sequence[Any] = ()
    ) -> None:
        self._channel = open_channel(address, credentials, options)
        self._outbox = Outbox()
        self.call = method_of(self._channel, CONVERSE)(self._outbox)
        self.send(Hello(PROTOCOL_VERSION, name))

    def send(self, frame: Frame) -> None:
        self.send_bytes(encode_frame(frame))

    def send_bytes(self, data: bytes) -> None:
        assert self._outbox.put(data)

    def frames(self) -> Iterator[Frame]:
        """What the coordinator sends; probes go back as they should."""
        for data in self.call:
            frame = decode_frame(data)
            if isinstance(frame, Probe):
                self.send(frame)
            elif not isinstance(frame, Welcome):
                yield frame

    def next_request(self) -> Piece:
        frame = next(self.frames())
        assert isinstance(frame, Piece)
        return frame

    def close(self) -> None:
        self._outbox.close()
        self.call.cancel()
        self._channel.close()

    def __enter__(self) -> "RawParty":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def answer(request_id: int, data: bytes, *, index: int = 0, is_last: bool = True) -> Piece:
    return Piece(request_id, index, is_last, memoryview(data))
