"""A web server binds to loopback, or has a certificate, and answers over a real connection."""

import contextlib
import socket
from pathlib import Path

import httpx2 as httpx
import pytest

from fedforest.errors import ConfigurationError, TransportError
from fedforest.runtime.membership.service_tokens import OneToken
from fedforest.web import connections
from fedforest.web.api.guard import Guard, WebLimits
from fedforest.web.server import WebAddress, WebServer
from fedforest.web.serving.app import make_app
from tests.web.served_models import colours, served


def test_a_server_answers_until_it_is_stopped() -> None:
    one = OneToken()
    app = make_app([served("colours", colours()[1])], Guard(one, WebLimits()))
    with WebServer(app, WebAddress("127.0.0.1:0")) as web:
        headers = {"Authorization": f"Bearer {one.word}"}
        path = f"{web.url}/v1/models/colours/predictions"
        answer = httpx.post(path, json={"rows": [[0, 0, 0, 0]]}, headers=headers, timeout=20)
        assert answer.json()["predictions"] == ["green"]
        assert "server" not in answer.headers
        with pytest.raises(TransportError, match="cannot listen"):
            WebServer(app, WebAddress(f"127.0.0.1:{web.port}"))
    with pytest.raises(httpx.ConnectError):
        httpx.get(path, timeout=5)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "example.org:80", "[::]:0"])
def test_tokens_do_not_cross_a_network_unprotected(address: str) -> None:
    with pytest.raises(ConfigurationError, match="name a certificate and its key"):
        WebAddress(address).listen()


@pytest.mark.parametrize("address", ["", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ConfigurationError, match="write HOST:PORT"):
        WebAddress(address).listen()


def test_a_certificate_that_cannot_be_read_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    place = WebAddress("127.0.0.1:0", tmp_path / "empty.pem", tmp_path / "empty.pem")
    with pytest.raises(ConfigurationError, match="no certificate and its key"):
        WebServer(None, place)
    with pytest.raises(ConfigurationError, match="go together"):
        WebAddress("127.0.0.1:0", tmp_path / "empty.pem").listen()


def test_a_head_that_never_ends_and_one_that_does_not_come_end_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = make_app([served("colours", colours()[1])], Guard(OneToken(), WebLimits()))
    with WebServer(app, WebAddress("127.0.0.1:0")) as web:
        endless = b"GET /v1/models HTTP/1.1\r\nX: " + b"a" * (1 << 20)
        assert _send(web.port, endless).startswith(b"HTTP/1.1 400")
        many = b"GET /v1/models HTTP/1.1\r\n" + b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 9_000
        assert _send(web.port, many).startswith(b"HTTP/1.1 400")
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
        for beginning in (b"", b"GET /v1/models HT"):
            assert b"did not arrive in time" in _send(web.port, beginning)


def _send(port: int, data: bytes) -> bytes:
    """Return what comes back before the server shuts the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        answer = b""
        with contextlib.suppress(ConnectionError):  # it may be shut while we still send
            connection.sendall(data)
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                answer += piece
    return answer
