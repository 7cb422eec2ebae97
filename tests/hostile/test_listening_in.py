"""Somebody on the network wants what members say to travel under an older version of TLS."""

import ssl
from pathlib import Path

import pytest

from tests.integration.federation_folder import make_federation, running
from tests.integration.samples import divide
from tests.transport.grpc_federations import GrpcFederation
from tests.transport.raw_tls import call, connect

OLD, NEW = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def test_a_service_shakes_hands_in_nothing_older_than_tls_1_3(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path, divide(1))
    with running(pattern) as federation:
        (party,) = federation.parties.values()
        for is_member in (True, False):
            with (
                pytest.raises((ssl.SSLError, ConnectionError)),
                connect(federation.address, party.home / "tls", OLD, is_member=is_member),
            ):
                pass
        with connect(federation.address, party.home / "tls", NEW) as connection:
            assert connection.version() == "TLSv1.3"


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_call_under_an_older_version_is_refused_where_the_handshake_was_not(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    with GrpcFederation() as federation:
        federation.issue("bank").save(tmp_path)
        with connect(federation.hub.address, tmp_path, version) as connection:
            assert (b"connections use TLSv1.3" in call(connection)) == (version == OLD)
        assert federation.hub.connected() == []
