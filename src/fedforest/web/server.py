"""An ASGI application on a port: bound to loopback, or to other addresses only with TLS."""

import ipaddress
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from fedforest.errors import ConfigurationError, TransportError
from fedforest.web.connections import BoundedConnection

_CONNECTIONS = 1000
_TICK_SECONDS = 0.2
_STOP_SECONDS = 5


@dataclass(frozen=True)
class WebAddress:
    """Where a server listens, and by which certificate if any."""

    address: str = "127.0.0.1:8080"
    certificate: Path | None = None
    key: Path | None = None
    members: Path | None = None  # who signs certificates that clients may show, as PEM

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"

    def listen(self) -> socket.socket:
        """Open the port; raises where tokens would travel in the open, or it is taken."""
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ConfigurationError(f"{self.address!r} is no address: write HOST:PORT")
        host = host.strip("[]")
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("a certificate and its key go together; name both files")
        if self.certificate is None and not _is_loopback(host):
            raise ConfigurationError(
                f"at {self.address} tokens and rows would cross the network unprotected: name a "
                "certificate and its key, or listen at 127.0.0.1 behind a proxy that has one"
            )
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host, int(port)), family=family)
        except OSError as error:
            raise TransportError(f"cannot listen at {self.address}: {error.strerror}") from None
        # Inherited by connections. asyncio sets it only where the protocol number was given, and
        # without it each answer, written in two pieces, waits 40 ms for the client's confirmation.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening


class CertifiedConnection(BoundedConnection):
    """A connection that tells which certificate a client showed (the ASGI extension `tls`)."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        tls = self.transport.get_extra_info("ssl_object")
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        if shown:
            chain = [ssl.DER_cert_to_PEM_cert(shown)]
            self.scope["extensions"] = {"tls": {"client_cert_chain": chain}}


class WebServer:
    """An application that is served by a thread of its own, until it is stopped."""

    def __init__(self, app: Any, place: WebAddress) -> None:
        config = _configure(app, place)  # before the port is open: it may not be possible
        self._socket = place.listen()
        host, port = self._socket.getsockname()[:2]
        self.url = f"{place.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self.port: int = port
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined] # the process has its own
        self._thread = threading.Thread(target=self._run, name="fedforest-web", daemon=True)

    def __enter__(self) -> "WebServer":
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise TransportError("the web server could not start; see its log")
            self._thread.join(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS + 2 * _TICK_SECONDS)

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()


def _configure(app: Any, place: WebAddress) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        http=CertifiedConnection,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
        ssl_ca_certs=None if place.members is None else str(place.members),
        ssl_cert_reqs=ssl.CERT_NONE if place.members is None else ssl.CERT_OPTIONAL,
    )
    if place.certificate is not None:
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{place.certificate} and {place.key} are no certificate and its key: {error}"
            ) from None
        assert config.ssl is not None
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    return config


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
