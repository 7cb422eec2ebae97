"""The coordinator's end of enrolments: strangers may connect, so everything is bounded.

Connections are limited in number, in all and from one address, in seconds and in bytes; an address
that failed often is refused for a while. Callbacks decide who the newcomers are and which
certificates they get. A newcomer can harm neither the service nor other newcomers.
"""

import logging
import socket
import socketserver
import ssl
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedforest.errors import FederationError, ProtocolError, TransportError
from fedforest.transport.enrolment import (
    DEADLINE_SECONDS,
    Answer,
    Application,
    AskAuthority,
    Card,
    receive,
    send,
    split_address,
)
from fedforest.transport.rare_lines import RareLine

_LOG = logging.getLogger(__name__)

Decide = Callable[[Application, str], bytes]
"""(application, the address it comes from) -> certificate; raises `FederationError`."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits on what strangers may take of the coordinator."""

    at_once: int = 32
    at_once_from_one: int = 8
    seconds: float = DEADLINE_SECONDS
    failures: int = 10  # of one address within `silence_seconds`, then it is not listened to
    silence_seconds: float = 60.0


@dataclass(slots=True)
class Doorstep:
    """The newcomers being served and the recent failures; used on several threads."""

    bounds: Bounds
    _serving: Counter[str] = field(default_factory=Counter)
    _failures: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _most_addresses: int = 4096

    def enter(self, host: str) -> bool:
        """Whether somebody from this address may speak now."""
        with self._lock:
            is_free = self._serving.total() < self.bounds.at_once
            has_room = self._serving[host] < self.bounds.at_once_from_one
            if not is_free or not has_room or self._is_silenced(host):
                return False
            self._serving[host] += 1
            return True

    def leave(self, host: str, *, failed: bool) -> None:
        """Note that a newcomer has left."""
        with self._lock:
            self._serving[host] -= 1
            self._serving += Counter()  # forgets those of whom nobody is left
            if failed:
                recent = self._failures.setdefault(host, deque(maxlen=self.bounds.failures))
                recent.append(time.monotonic())
                self._failures.move_to_end(host)
                if len(self._failures) > self._most_addresses:
                    self._failures.popitem(last=False)

    def _is_silenced(self, host: str) -> bool:
        recent = self._failures.get(host, deque())
        if len(recent) < self.bounds.failures:
            return False
        return time.monotonic() - recent[0] < self.bounds.silence_seconds


class EnrolmentServer:
    """Listens for newcomers until closed.

    Parameters
    ----------
    tls : Path
        The folder of the coordinator's credentials; `reload` reads them again.
    address : str
        Where to listen; port 0 lets the system choose.
    decide : callable
        Gives out certificates.
    """

    def __init__(
        self, tls: Path, address: str, decide: Decide, bounds: Bounds | None = None
    ) -> None:
        self._tls = tls
        self._decide = decide
        self._doorstep = Doorstep(bounds or Bounds())
        self._turned_away = RareLine(_LOG)
        self.reload()
        try:
            self._server = _Server(split_address(address), self)
        except OSError as error:
            raise TransportError(
                f"cannot listen for newcomers at {address}: {error.strerror}"
            ) from None
        self.address = f"{address.rpartition(':')[0]}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="fedforest-enrolment", daemon=True
        )

    def __enter__(self) -> "EnrolmentServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(self._doorstep.bounds.seconds)

    def reload(self) -> None:
        """Show the certificate that is in the folder now to whoever comes from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self._tls / "certificate.pem", self._tls / "key.pem")
        self._authority = (self._tls / "authority.pem").read_bytes()
        self._context = context

    def enter(self, host: str) -> bool:
        """Let somebody in; on the thread that listens, so nothing is waited for."""
        if self._doorstep.enter(host):
            return True
        self._turned_away.warn(
            "an enrolment from %s was turned away: too many, or too many failed", host
        )
        return False

    def serve(self, raw: socket.socket, host: str) -> None:
        """One newcomer, from handshake to answer."""
        failed = True
        try:
            failed = not self._converse(raw, host)
        except (OSError, ProtocolError) as error:
            what = str(error) if isinstance(error, ProtocolError) else type(error).__name__
            _LOG.warning("an enrolment from %s failed: %s", host, what)
        finally:
            self._doorstep.leave(host, failed=failed)

    def _converse(self, raw: socket.socket, host: str) -> bool:
        """Whether the newcomer got what it asked for."""
        deadline = time.monotonic() + self._doorstep.bounds.seconds
        raw.settimeout(self._doorstep.bounds.seconds)
        with self._context.wrap_socket(raw, server_side=True) as connection:
            asked: AskAuthority | Application = receive(
                connection,
                AskAuthority | Application,  # type: ignore[arg-type] # a union is what msgspec wants
                deadline,
            )
            if isinstance(asked, AskAuthority):
                send(connection, Card(self._authority))
                return True
            answer = self._answer(asked, host)
            send(connection, answer)
            return bool(answer.certificate)

    def _answer(self, application: Application, host: str) -> Answer:
        try:
            return Answer(self._decide(application, host))
        except FederationError as error:
            return Answer(reason=str(error))
        except Exception:  # noqa: BLE001 - a bug ends its request, not the service
            _LOG.exception("an enrolment from %s could not be decided", host)
            return Answer(reason="internal error at the coordinator, see its log")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], owner: EnrolmentServer) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._owner = owner
        super().__init__(address, _Handler)

    def verify_request(self, request: object, client_address: object) -> bool:
        """Turn away before there is a thread."""
        del request
        return self._owner.enter(_host(client_address))

    def finish_request(self, request: object, client_address: object) -> None:
        """On a thread of its own."""
        assert isinstance(request, socket.socket)
        self._owner.serve(request, _host(client_address))


class _Handler(socketserver.BaseRequestHandler):
    """The base class wants one; `_Server.finish_request` does the work."""


def _host(client_address: object) -> str:
    assert isinstance(client_address, tuple)
    return str(client_address[0])
