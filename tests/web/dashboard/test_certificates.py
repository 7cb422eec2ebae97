"""Logging in by the certificate of a member, over TLS."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx2 as httpx
import pytest

from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.identity import Role
from fedforest.web.server import WebAddress, WebServer
from tests.web.dashboard.sites import CoordinatorPages

DAY = timedelta(days=1)


@contextmanager
def over_tls(pages: CoordinatorPages, authority: Authority, folder: Path) -> Iterator[str]:
    """The pages, over TLS, where members may show certificates."""
    authority.issue("coordinator", "coordinator", DAY).save(folder)
    files = [folder / name for name in ("certificate.pem", "key.pem", "authority.pem")]
    with WebServer(pages.app, WebAddress("127.0.0.1:0", *files)) as web:
        yield web.url


@contextmanager
def browser_with(
    authority: Authority, role: Role, name: str, folder: Path
) -> Iterator[httpx.Client]:
    """A browser that has the certificate of a member."""
    authority.issue(role, name, DAY).save(folder)
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # this is about the client's certificate
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    with httpx.Client(verify=context, follow_redirects=True, timeout=20.0) as client:
        yield client


def test_a_member_logs_in_by_its_certificate(pages: CoordinatorPages, tmp_path: Path) -> None:
    authority = make_authority("tests", DAY)
    with (
        over_tls(pages, authority, tmp_path / "server") as url,
        browser_with(authority, "user", "ada", tmp_path / "ada") as browser,
    ):
        assert "Go on as ada" in browser.get(f"{url}/login").text
        answer = browser.post(f"{url}/login", data={"certificate": "1"})
        assert '<span class="who">ada</span>' in answer.text
        (cookie,) = browser.cookies.jar
        assert cookie.secure
        assert cookie.name.startswith("__Host-")


@pytest.mark.parametrize(
    ("role", "name", "federation"),
    [("user", "mallory", "tests"), ("party", "ada", "tests"), ("user", "ada", "others")],
)
def test_others_do_not(
    pages: CoordinatorPages, tmp_path: Path, role: Role, name: str, federation: str
) -> None:
    """Strangers, parties of the same name, and members of another federation of this authority."""
    authority = make_authority("tests", DAY)
    other = authority if federation == "tests" else make_authority(federation, DAY)
    with (
        over_tls(pages, authority, tmp_path / "server") as url,
        browser_with(other, role, name, tmp_path / "other") as browser,
    ):
        try:
            answer = browser.post(f"{url}/login", data={"certificate": "1"})
        except httpx.TransportError:  # the handshake refused it
            assert federation != "tests"
            return
        assert answer.status_code == 401
        assert "Go on as" not in answer.text
