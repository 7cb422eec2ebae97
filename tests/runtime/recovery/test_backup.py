"""Copies of a role's folder: whole or nothing, private, and without what must not come back."""

import gzip
import sqlite3
import tarfile
from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.runtime.recovery.backup import (
    RESTORED,
    make_backup,
    read_past,
    read_restored,
    restore_backup,
    settle,
)
from fedforest.runtime.recovery.run_store import RunStore

OVER, UNDER_WAY = bytes([1]) * 16, bytes([2]) * 16


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "role"
    store = RunStore(home)
    for run in (OVER, UNDER_WAY):
        store.begin(run, b"what it is about").close()
    store.save(OVER, "leakage.json", b"{}")
    store.finish(OVER, b"result")
    (home / "keys").mkdir()
    (home / "keys" / "identity").write_bytes(bytes(32))
    (home / "running.lock").touch()
    with sqlite3.connect(home / "history.sqlite") as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE told (text TEXT)")
        database.execute("INSERT INTO told VALUES ('kept')")
    return home


def test_a_restored_folder_has_everything_but_runs_that_were_under_way(
    home: Path, tmp_path: Path
) -> None:
    archive, again = tmp_path / "copy", tmp_path / "again"
    with sqlite3.connect(home / "history.sqlite") as writing:  # as a service has it open
        writing.execute("INSERT INTO told VALUES ('last')")
        writing.commit()
        made = make_backup(home, archive, "party", "0")
    assert made.descriptions == {UNDER_WAY.hex(): b"what it is about"}
    _, restored = restore_backup(archive, again, "party")
    assert restored.runs == [UNDER_WAY.hex()]
    assert read_restored(again) == restored
    store = RunStore(again)
    assert store.unfinished() == []
    assert (store.result(OVER), store.result(UNDER_WAY)) == (b"result", None)
    assert store.is_finished(UNDER_WAY)  # its id is never used again
    assert (again / "keys" / "identity").read_bytes() == bytes(32)
    assert not (again / "running.lock").exists()
    with sqlite3.connect(again / "history.sqlite") as database:
        assert database.execute("SELECT text FROM told").fetchall() == [("kept",), ("last",)]


def test_a_copy_and_what_is_made_of_it_are_readable_by_their_owner_only(
    home: Path, tmp_path: Path
) -> None:
    archive, again = tmp_path / "copy", tmp_path / "again"
    make_backup(home, archive, "party", "0")
    restore_backup(archive, again, "party")
    paths = [archive, *again.rglob("*")]
    assert len(paths) > 5
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths)


def test_a_damaged_copy_is_refused_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    archive, again = tmp_path / "copy", tmp_path / "again"
    make_backup(home, archive, "party", "0")
    whole = archive.read_bytes()
    plain = gzip.decompress(whole)
    changed = plain.replace(b"result", b"Result")
    assert changed != plain
    for data in (whole[: len(whole) // 2], b"", b"no archive", gzip.compress(changed)):
        archive.write_bytes(data)
        with pytest.raises(ConfigurationError, match=r"no whole copy|damaged"):
            restore_backup(archive, again, "party")
        assert not again.exists()
        assert not list(tmp_path.glob("*.draft"))


def test_a_copy_that_points_out_of_its_folder_is_refused(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "copy"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(home / "keys" / "identity", arcname="../outside")
    with pytest.raises(ConfigurationError, match="no whole copy"):
        restore_backup(archive, tmp_path / "again", "party")
    assert not (tmp_path / "outside").exists()


def test_copies_replace_nothing_and_are_of_one_role(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "copy"
    make_backup(home, archive, "party", "0")
    with pytest.raises(ConfigurationError, match="there already"):
        make_backup(home, archive, "party", "0")
    with pytest.raises(ConfigurationError, match="not empty"):
        restore_backup(archive, home, "party")
    with pytest.raises(ConfigurationError, match="of a party, not of a coordinator"):
        restore_backup(archive, tmp_path / "again", "coordinator")


def test_that_a_folder_was_restored_is_remembered_after_its_owner_decided(
    home: Path, tmp_path: Path
) -> None:
    archive, again = tmp_path / "copy", tmp_path / "again"
    make_backup(home, archive, "party", "0")
    _, restored = restore_backup(archive, again, "party")
    settle(again)
    assert read_restored(again) is None
    assert read_past(again) == restored
    assert not (again / RESTORED).exists()
