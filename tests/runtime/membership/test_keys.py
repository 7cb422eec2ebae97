"""A party's keys: made when it joins, never made anew by themselves, changed by a command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedforest import Masked
from fedforest.cli.main import app
from fedforest.errors import ConfigurationError, MaskingError
from fedforest.masking.key_agreement import fingerprint
from fedforest.runtime.membership.homes import load_identity, load_keys, make_keys
from fedforest.runtime.membership.key_rotation import renew_identity
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.messages.results import HorizontalResult
from fedforest.runtime.recovery.run_store import RunStore
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation, make_party
from tests.integration.samples import divide, horizontal


def test_keys_are_made_once(tmp_path: Path) -> None:
    make_keys(tmp_path)
    before = [path.read_bytes() for path in sorted((tmp_path / "keys").iterdir())]
    make_keys(tmp_path)
    assert [path.read_bytes() for path in sorted((tmp_path / "keys").iterdir())] == before
    assert len(set(before)) == 2


@pytest.mark.parametrize("lost", ["identity", "lasting"])
def test_a_key_that_is_lost_is_named_and_not_made_anew(tmp_path: Path, lost: str) -> None:
    make_keys(tmp_path)
    (tmp_path / "keys" / lost).unlink()
    with pytest.raises(ConfigurationError, match=f"{lost} is missing; restore it from a copy"):
        load_keys(tmp_path, "bank", {})
    with pytest.raises(ConfigurationError, match="is missing; restore it"):
        renew_identity(tmp_path, "bank")
    assert not (tmp_path / "keys" / lost).exists()


def test_a_party_that_worked_before_gets_no_first_keys_again(tmp_path: Path) -> None:
    RunStore(tmp_path)
    for loading in (make_keys, load_identity):
        with pytest.raises(ConfigurationError, match="is missing; restore it from a copy"):
            loading(tmp_path)
    assert not (tmp_path / "keys").exists()


def test_a_folder_without_keys_is_told_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="fedforest party identity --new --home"):
        load_identity(tmp_path)
    renew_identity(tmp_path, "bank")
    load_identity(tmp_path)


def test_no_key_changes_while_a_run_needs_it_or_the_service_runs(tmp_path: Path) -> None:
    make_keys(tmp_path)
    RunStore(tmp_path).begin(bytes(16), b"").close()
    before = load_identity(tmp_path).public
    with pytest.raises(ConfigurationError, match="under way need the present key"):
        renew_identity(tmp_path, "bank")
    assert load_identity(tmp_path).public == before


def test_a_changed_key_is_refused_until_the_others_pin_it(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    order = horizontal(2, aggregation=Masked())
    with local_federation(tmp_path / "local", pattern) as federation:
        federation.ask(order, HorizontalResult, bytes([1]) * 16)
        homes = federation.homes
        responses = (homes["bank"] / "keys" / "lasting").read_bytes()
        told = CliRunner().invoke(app, ["party", "identity", "--new", "--home", str(homes["bank"])])
        assert told.exit_code == 0, told.output
        _start_anew(federation, "bank")
        with pytest.raises(MaskingError, match="'bank' shows a key that is not the pinned one"):
            federation.ask(order, HorizontalResult, bytes([2]) * 16)
        new = fingerprint(load_identity(homes["bank"]).public)
        assert told.output.strip() == new
        (homes["shop"] / "party.toml").write_text('coordinator = "x:1"\n')
        Pins(homes["shop"], {}).trust("bank", new)
        _start_anew(federation, "shop")
        federation.ask(order, HorizontalResult, bytes([3]) * 16)
        assert (homes["bank"] / "keys" / "lasting").read_bytes() == responses


def _start_anew(federation: LocalFederation, name: str) -> None:
    federation.parties[name].close()
    federation.parties[name] = make_party(federation.homes[name])
    federation.hub.endpoints[name] = federation.parties[name].answer
