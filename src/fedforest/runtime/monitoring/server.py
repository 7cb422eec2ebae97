"""Metrics and health over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for watchdogs.

There is no password: the server listens on this machine only, unless its operator names another
address. What it tells is counted and public among operators; it takes no input but a path.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import defaultdict
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from fedforest.errors import TransportError
from fedforest.extras import import_extra
from fedforest.runtime.meters import COUNTERS, METERS
from fedforest.runtime.monitoring.gauges import GAUGES, RoleState

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_CONNECTIONS = 16
_SECONDS = 5.0  # for a client to say what it wants
LOOPBACK = "127.0.0.1"


class MetricsAddress(NamedTuple):
    """Where a role answers about itself; port 0 lets the system choose."""

    port: int
    host: str = LOOPBACK


@contextmanager
def answering(address: MetricsAddress | None, state: RoleState) -> Iterator[str]:
    """Answer about a role until the block ends, if it has an address; yield the one it got."""
    if address is None:
        yield ""
        return
    prometheus = import_extra("prometheus_client", "--metrics-port")
    registry = prometheus.CollectorRegistry()
    registry.register(_MetricsCollector(prometheus, state))

    class Bound(_MetricsHandler):
        def metrics(self) -> tuple[bytes, str]:
            return prometheus.generate_latest(registry), prometheus.CONTENT_TYPE_LATEST

        def why_not_ready(self) -> str:
            return state.why_not_ready()

    with _listen(address, Bound) as server:
        threading.Thread(target=server.serve_forever, name="fedforest-metrics", daemon=True).start()
        host, port = server.server_address[:2]
        yield f"{host!s}:{port}"
        server.shutdown()


def _listen(address: MetricsAddress, handler: type[BaseHTTPRequestHandler]) -> _MetricsServer:
    try:
        return _MetricsServer((address.host, address.port), handler)
    except OSError as error:
        raise TransportError(
            f"cannot answer about metrics at {address.host}:{address.port}: {error.strerror}; "
            "choose another --metrics-port"
        ) from None


class _MetricsServer(ThreadingHTTPServer):
    """Answers few connections at a time; further ones are shut at once."""

    daemon_threads = True
    request_queue_size = 64
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0] and ipaddress.ip_address(address[0]).version == 6:
            self.address_family = socket.AF_INET6
        self._free = threading.Semaphore(_MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went in the middle of an answer."""


class _MetricsHandler(BaseHTTPRequestHandler):
    """Answers GET of three paths."""

    timeout = _SECONDS
    server_version, sys_version = "fedforest", ""

    def metrics(self) -> tuple[bytes, str]:
        """Return the metrics and their type."""
        raise NotImplementedError

    def why_not_ready(self) -> str:
        """Return why the role cannot do its work now; empty if it can."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer a path."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._send(200, *self.metrics())
        elif path == "/healthz":
            self._send(200, b"ok\n")
        elif path == "/readyz":
            reason = self.why_not_ready()
            self._send(503 if reason else 200, f"{reason or 'ok'}\n".encode())
        else:
            self._send(404, b"there are /metrics, /healthz and /readyz\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Log nothing: a scrape every few seconds is no event."""

    def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _MetricsCollector:
    """Counters and gauges in the form that prometheus_client writes."""

    def __init__(self, prometheus: Any, state: RoleState) -> None:
        self._families = prometheus.metrics_core
        self._state = state

    def collect(self) -> Iterator[Any]:
        for name, (text, labels) in COUNTERS.items():
            counter = self._families.CounterMetricFamily(name, text, labels=labels)
            for values, count in METERS.read(name).items():
                counter.add_metric(values, count)
            yield counter
        readings = defaultdict(list)
        for reading in self._state.read():
            readings[reading.name].append(reading)
        for name, (text, labels) in GAUGES.items():
            gauge = self._families.GaugeMetricFamily(name, text, labels=labels)
            for reading in readings.get(name, ()):
                gauge.add_metric(reading.labels, reading.value)
            if readings.get(name):
                yield gauge
