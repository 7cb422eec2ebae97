"""Enrolments over real sockets: who authenticates whom, and what strangers can do to them."""

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError, TransportError
from fedforest.transport import enrolment
from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.enrolment import (
    LARGEST_MESSAGE,
    Application,
    AskAuthority,
    Card,
    apply,
    receive,
    send,
    split_address,
)
from fedforest.transport.enrolment_server import Bounds, EnrolmentServer
from fedforest.transport.identity import Identity
from fedforest.transport.tls import (
    Credentials,
    digest_certificate,
    make_key,
    make_request,
    read_request,
)

DAY = timedelta(days=1)
DEADLINE_SECONDS = 60.0


class Office:
    """An authority that gives every applicant a certificate, and remembers them."""

    def __init__(self, folder: Path, **bounds: float) -> None:
        self.authority = make_authority("clinics", DAY)
        self.authority.issue("coordinator", "coordinator", DAY).save(folder)
        self.applications: list[Application] = []
        self.server = EnrolmentServer(folder, "127.0.0.1:0", self.decide, Bounds(**bounds))  # type: ignore[arg-type] # numbers of either kind

    def decide(self, application: Application, host: str) -> bytes:
        assert host.startswith("127.")
        self.applications.append(application)
        if application.secret == b"wrong":
            raise ConfigurationError("the invitation is unknown here")
        if application.secret == b"bug":
            raise ZeroDivisionError("with a secret in its text")
        identity = Identity(self.authority.federation, "party", "bank")
        return self.authority.certify(read_request(application.request), identity, DAY)

    @property
    def fingerprint(self) -> bytes:
        return digest_certificate(self.authority.certificate)

    def enrol(self, secret: bytes = b"right") -> Credentials:
        key = make_key()
        application = Application(secret, make_request(key))
        federation = self.authority.federation
        answer = apply(self.server.address, federation, self.fingerprint, application)
        return Credentials(answer[0], key, answer[1])

    def connect(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """A connection that says nothing by itself."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        context.check_hostname = False
        raw = socket.create_connection(
            split_address(self.server.address), DEADLINE_SECONDS, source_address=(source, 0)
        )
        return context.wrap_socket(raw)

    def is_open_to(self, source: str) -> bool:
        try:
            with self.connect(source) as connection:
                send(connection, AskAuthority())
                card = receive(connection, Card, time.monotonic() + DEADLINE_SECONDS)
        except OSError:
            return False
        return card.authority == self.authority.certificate


@contextmanager
def opened(folder: Path, **bounds: float) -> Iterator[Office]:
    office = Office(folder, **bounds)
    with office.server:
        yield office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with opened(tmp_path / "office") as office:
        yield office


def test_a_newcomer_gets_a_certificate_for_its_own_key(office: Office) -> None:
    credentials = office.enrol()
    credentials.check()
    assert str(credentials.identity) == "fedforest:clinics/party/bank"
    assert office.applications[0].request not in (b"", credentials.key)


def test_a_refusal_tells_the_newcomer_why(office: Office) -> None:
    with pytest.raises(ConfigurationError, match="refuses: the invitation is unknown here"):
        office.enrol(b"wrong")


def test_a_bug_of_the_coordinator_tells_nothing_and_ends_only_its_enrolment(
    office: Office,
) -> None:
    with pytest.raises(ConfigurationError, match="refuses: internal error") as caught:
        office.enrol(b"bug")
    assert "secret" not in str(caught.value)
    office.enrol()


def test_nothing_is_shown_to_whoever_has_another_authority(tmp_path: Path, office: Office) -> None:
    with opened(tmp_path / "impostor") as impostor:
        application = Application(b"right", make_request(make_key()))
        with pytest.raises(TransportError, match="another fingerprint"):
            apply(impostor.server.address, "clinics", office.fingerprint, application)
    assert impostor.applications == []


def test_nothing_is_shown_to_who_shows_the_true_authority_and_has_another_ones_certificate(
    tmp_path: Path, office: Office
) -> None:
    with opened(tmp_path / "impostor") as impostor:
        impostor.server._authority = office.authority.certificate
        application = Application(b"right", make_request(make_key()))
        with pytest.raises(TransportError, match="holds no certificate of the federation's coord"):
            apply(impostor.server.address, "clinics", office.fingerprint, application)
    assert impostor.applications == []


@pytest.mark.parametrize("role", ["party", "user"])
def test_nothing_is_shown_to_a_member_that_poses_as_the_coordinator(
    tmp_path: Path, office: Office, role: str
) -> None:
    office.authority.issue(role, "bank", DAY).save(tmp_path / "posing")  # type: ignore[arg-type] # a role
    posing = EnrolmentServer(tmp_path / "posing", "127.0.0.1:0", office.decide)
    application = Application(b"right", make_request(make_key()))
    with posing, pytest.raises(TransportError, match="holds no certificate"):
        apply(posing.address, "clinics", office.fingerprint, application)
    assert office.applications == []


def test_nothing_is_shown_where_the_coordinators_certificate_has_expired(
    tmp_path: Path, office: Office
) -> None:
    make_expired(office.authority).save(tmp_path / "expired")
    late = EnrolmentServer(tmp_path / "expired", "127.0.0.1:0", office.decide)
    application = Application(b"right", make_request(make_key()))
    with late, pytest.raises(TransportError, match="expired"):
        apply(late.address, "clinics", office.fingerprint, application)
    assert office.applications == []


def make_expired(authority: Authority) -> Credentials:
    return authority.issue("coordinator", "coordinator", timedelta(seconds=-1))


def test_nobody_at_the_address_is_an_error_that_names_it(office: Office) -> None:
    office.server.__exit__()
    with pytest.raises(TransportError, match=office.server.address):
        office.enrol()
    office.server = EnrolmentServer(office.server._tls, "127.0.0.1:0", office.decide)
    office.server.__enter__()


def test_a_renewed_certificate_of_the_coordinator_is_shown_from_then_on(office: Office) -> None:
    before = office.connect()
    renewed = office.authority.issue("coordinator", "coordinator", DAY)
    renewed.save(office.server._tls)
    office.server.reload()
    after = office.connect()
    assert before.getpeercert(binary_form=True) != after.getpeercert(binary_form=True)
    shown = ssl.DER_cert_to_PEM_cert(after.getpeercert(binary_form=True) or b"")
    assert digest_certificate(shown.encode()) == digest_certificate(renewed.certificate)
    before.close()
    after.close()


NONSENSE: dict[str, Callable[[ssl.SSLSocket], None]] = {
    "too long": lambda line: line.sendall((LARGEST_MESSAGE + 1).to_bytes(4, "big")),
    "garbage": lambda line: line.sendall((4).to_bytes(4, "big") + b"\xc1\xc1\xc1\xc1"),
    "an answer": lambda line: send(line, enrolment.Answer(b"", "")),
    "half a message": lambda line: line.sendall((400).to_bytes(4, "big") + b"half"),
    "nothing": lambda _line: None,
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_client_that_talks_nonsense_is_logged_and_harms_nobody(
    office: Office, nonsense: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with office.connect() as line:
        NONSENSE[nonsense](line)
        line.settimeout(1.0)
    wait_until(lambda: "an enrolment from 127.0.0.1 failed" in caplog.text)
    assert office.applications == []
    office.enrol()


def test_a_client_without_tls_is_logged_and_harms_nobody(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with socket.create_connection(split_address(office.server.address)) as line:
        line.sendall(b"GET / HTTP/1.1\r\n\r\n")
        wait_until(lambda: "failed: SSLError" in caplog.text)
    office.enrol()


def test_a_slow_client_is_cut_off_however_steadily_it_drips(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with opened(tmp_path / "office", seconds=0.5) as office, office.connect() as line:
        line.sendall((400).to_bytes(4, "big"))
        wait_until(lambda: not is_heard(line))
        assert "takes too long" in caplog.text or "TimeoutError" in caplog.text
        office.enrol()


def is_heard(line: ssl.SSLSocket) -> bool:
    """Say a little more; whether the other side is there still."""
    try:
        line.sendall(b".")
    except OSError:
        return False
    return True


def test_as_many_silent_clients_as_one_address_may_have_do_not_keep_others_out(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "office", at_once_from_one=3) as office:
        silent = [office.connect("127.0.0.2") for _ in range(3)]
        assert not office.is_open_to("127.0.0.2")
        assert office.is_open_to("127.0.0.3")
        office.enrol()
        for line in silent:
            line.close()
        wait_until(lambda: office.is_open_to("127.0.0.2"))


def test_no_more_clients_are_served_at_once_than_there_is_room_for(tmp_path: Path) -> None:
    with opened(tmp_path / "office", at_once=2) as office:
        silent = [office.connect(f"127.0.0.{number}") for number in (2, 3)]
        assert not office.is_open_to("127.0.0.4")
        for line in silent:
            line.close()
        wait_until(lambda: office.is_open_to("127.0.0.4"))


def test_an_address_that_failed_often_is_not_listened_to_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "office", failures=3, silence_seconds=600) as office:
        for _ in range(3):
            with pytest.raises(ConfigurationError):
                office.enrol(b"wrong")
        with pytest.raises(TransportError):
            office.enrol()
        assert len(office.applications) == 3
        for _ in range(20):
            assert not office.is_open_to("127.0.0.1")
        assert caplog.text.count("turned away") == 1
        assert office.is_open_to("127.0.0.2")
        recent = office.server._doorstep._failures["127.0.0.1"]
        recent.extend([moment - 600.0 for moment in recent])  # ten minutes later
        assert office.is_open_to("127.0.0.1")


def test_an_application_shows_its_secret_in_no_log() -> None:
    assert "right" not in repr(Application(b"right", b""))


@pytest.mark.parametrize("address", ["clinics", "clinics:", ":7401", "clinics:65536", "a:b:x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="host:port"):
        split_address(address)


def test_addresses_may_be_of_either_kind() -> None:
    assert split_address("[::1]:7401") == ("::1", 7401)
    assert split_address("clinics.example:7401") == ("clinics.example", 7401)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_many_newcomers_at_once_are_all_served(office: Office) -> None:
    enrolled: list[Credentials] = []
    threads = [threading.Thread(target=lambda: enrolled.append(office.enrol())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert len({credentials.certificate for credentials in enrolled}) == 6
