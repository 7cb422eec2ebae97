"""Old files of a party: which may go, which are needed, and which never go."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fedforest.errors import ProtocolError
from fedforest.runtime.messages.party_requests import BeginRun
from fedforest.runtime.messages.roles import RowChoice, VerticalRole
from fedforest.runtime.party.parts import Begun
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.retention.model_folder import PartyModelFolder
from fedforest.runtime.party.retention.pruning import find_old, prune
from fedforest.runtime.recovery.run_store import RunStore
from tests.hostile.lying_coordinator import BANK, TERMS, PlayedRun, say, trained_federation
from tests.integration.local_federation import LocalFederation, make_party
from tests.runtime.service_recordings import RUN

ABANDONED, ROWS = bytes([7]) * 16, "ab" * 16
DAY = 86_400.0
LONG_AGO = 1_000_000_000.0


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    with trained_federation(tmp_path) as federation:
        yield federation


def age(folder: Path) -> None:
    """Make everything below a folder old."""
    for path in [*folder.rglob("*")]:
        os.utime(path, (LONG_AGO, LONG_AGO))


def everything(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()
    }


def test_what_is_young_stays_and_nothing_goes_before_it_is_asked_for(
    federation: LocalFederation,
) -> None:
    home = federation.homes[BANK]
    PlayedRun(federation, ABANDONED)
    (home / "alignments" / ROWS).write_bytes(b"rows")
    federation.parties[BANK].close()
    assert find_old(home, DAY) == []
    age(home)
    before = everything(home)
    found = find_old(home, DAY)
    assert [(old.kind, old.id) for old in found] == [
        ("runs", ABANDONED.hex()),
        ("alignments", ROWS),
    ]
    assert [old.kind for old in find_old(home, DAY, ["alignments"])] == ["alignments"]
    assert everything(home) == before
    prune(home, found)
    gone = before.keys() - everything(home).keys()
    assert gone == {f"runs/{ABANDONED.hex()}/journal", f"alignments/{ROWS}"}
    assert find_old(home, DAY) == []


def test_the_id_of_a_pruned_run_stays_taken(federation: LocalFederation) -> None:
    home = federation.homes[BANK]
    attack = PlayedRun(federation, ABANDONED)
    federation.parties[BANK].close()
    age(home)
    prune(home, find_old(home, DAY))
    federation.parties[BANK] = make_party(home)
    say(federation, BeginRun(ABANDONED, VerticalRole(data="columns"), TERMS))  # begins nothing
    with pytest.raises(ProtocolError, match="there is no run"):
        attack.ask(BeginRun(ABANDONED, VerticalRole(data="columns"), TERMS))
    assert RunStore(home).unfinished() == []


def test_what_a_running_party_works_on_stays(federation: LocalFederation) -> None:
    home = federation.homes[BANK]
    PlayedRun(federation, ABANDONED)
    age(home)
    before = everything(home)
    found = find_old(home, DAY)
    assert [(old.id, old.is_in_use) for old in found] == [(ABANDONED.hex(), True)]
    prune(home, found)
    assert everything(home) == before


def test_rows_that_a_run_under_way_is_about_stay(federation: LocalFederation) -> None:
    home = federation.homes[BANK]
    federation.parties[BANK].close()
    role = VerticalRole(data="columns", rows=RowChoice(alignment=ROWS))
    description = msgspec.msgpack.encode(Begun(role, TERMS, DataSetRules()))
    RunStore(home).begin(ABANDONED, description).close()
    (home / "alignments" / ROWS).write_bytes(b"rows")
    age(home)
    found = find_old(home, DAY, ["alignments"])
    assert [(old.id, old.is_in_use) for old in found] == [(ROWS, True)]


def test_only_withdrawn_models_go_and_ledgers_never(federation: LocalFederation) -> None:
    home = federation.homes[BANK]
    federation.keep_ledgers()
    federation.parties[BANK].close()
    age(home)
    assert find_old(home, DAY, ["models"]) == []
    PartyModelFolder(home).withdraw(RUN.hex())
    now = (home / "models" / f"{RUN.hex()}.withdrawn").stat().st_mtime + 2 * DAY
    found = find_old(home, DAY, now=now)
    assert [old.kind for old in found] == ["models"]
    before = everything(home)
    prune(home, found)
    after = everything(home)
    assert {name.split("/")[0] for name in before.keys() - after.keys()} == {"models"}
    assert any(name.startswith("ledger/") for name in after)
