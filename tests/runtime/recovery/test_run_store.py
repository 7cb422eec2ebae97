"""Runs are kept in folders that only their owner can read."""

from pathlib import Path

import msgspec
import pytest

from fedforest.errors import DamagedJournalError, ReplayError, StorageError
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.recovery.journal import Journal
from fedforest.runtime.recovery.run_store import RunStore

RUN, OTHER = bytes(range(16)), bytes(16)


class Note(msgspec.Struct, array_like=True):
    text: str


class Amount(msgspec.Struct, array_like=True):
    number: int


def test_a_run_is_opened_with_the_description_and_the_secret_it_was_begun_with(
    tmp_path: Path,
) -> None:
    begun = RunStore(tmp_path).begin(RUN, b"what to do")
    drawn = begun.randomness().of("masks")(48)
    begun.write(Note("first"))
    begun.close()
    opened = RunStore(tmp_path).open(RUN)
    assert (opened.run, opened.description) == (RUN, b"what to do")
    assert opened.randomness().of("masks")(48) == drawn
    assert list(opened.records(Note)) == [Note("first")]


def test_every_run_has_a_secret_of_its_own(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    drawn = [store.begin(run, b"").randomness().of("masks")(16) for run in (RUN, OTHER)]
    assert drawn[0] != drawn[1]


def test_a_secret_never_shows_itself(tmp_path: Path) -> None:
    secret = SystemRandomness(3).of("secret")(32)
    stored = RunStore(tmp_path, lambda _: secret).begin(RUN, b"")
    assert repr(secret) not in repr(stored)
    assert secret.hex() not in repr(stored)


def test_a_run_id_is_begun_once(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.begin(RUN, b"").close()
    with pytest.raises(StorageError, match="resume it"):
        store.begin(RUN, b"")
    store.finish(RUN)
    with pytest.raises(StorageError, match="begun here already"):
        store.begin(RUN, b"")


def test_runs_are_listed_and_finished_ones_are_not_resumed(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for run in (RUN, OTHER):
        store.begin(run, b"").close()
    assert store.all() == store.unfinished() == [OTHER, RUN]
    store.finish(OTHER)
    assert store.all() == [OTHER, RUN]
    assert store.unfinished() == [RUN]
    with pytest.raises(StorageError, match="over"):
        store.open(OTHER)
    with pytest.raises(StorageError, match="no run"):
        store.open(bytes(15) + b"\x01")


@pytest.mark.parametrize("keep", [False, True])
def test_a_finished_run_keeps_its_results_and_its_journal_only_if_wanted(
    tmp_path: Path, keep: bool
) -> None:
    store = RunStore(tmp_path)
    store.begin(RUN, b"").close()
    store.save(RUN, "model", b"trees")
    for _ in range(2):  # a crash may have come between
        store.finish(RUN, keep_journal=keep)
    assert store.load(RUN, "model") == b"trees"
    assert store.load(RUN, "nothing") is None
    assert (store.folder(RUN) / "journal").exists() == keep


def test_a_run_that_crashed_while_it_was_begun_is_begun_again(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.folder(RUN).mkdir()
    (store.folder(RUN) / "journal.draft").write_bytes(b"FFO")
    assert store.all() == []
    store.begin(RUN, b"now")
    assert store.all() == [RUN]


def test_only_their_owner_can_enter_the_folders_and_read_the_files(tmp_path: Path) -> None:
    home = tmp_path / "party"
    store = RunStore(home)
    store.begin(RUN, b"").close()
    store.save(RUN, "model", b"trees")
    store.finish(RUN, keep_journal=True)
    for path in [home / "runs", *(home / "runs").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_journal_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.begin(RUN, b"").close()
    store.folder(RUN).rename(store.folder(OTHER))
    with pytest.raises(DamagedJournalError, match="another run"):
        store.open(OTHER)
    with pytest.raises(DamagedJournalError, match="another run"):
        store.open(OTHER)  # and the refused journal was let go of


def test_a_journal_that_is_not_of_a_run_is_refused(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.folder(RUN).mkdir()
    Journal.create(store.folder(RUN) / "journal", b"something else").close()
    with pytest.raises(DamagedJournalError, match="not one of a run"):
        store.open(RUN)


def test_records_of_another_role_are_refused(tmp_path: Path) -> None:
    stored = RunStore(tmp_path).begin(RUN, b"")
    stored.write(Note("a party's"))
    with pytest.raises(ReplayError, match="record 1 "):
        list(stored.records(Amount))


@pytest.mark.parametrize("run", [b"", bytes(15), bytes(17)])
def test_a_run_id_that_is_none_names_no_folder(tmp_path: Path, run: bytes) -> None:
    with pytest.raises(StorageError, match="16 bytes"):
        RunStore(tmp_path).begin(run, b"")


def test_a_folder_that_cannot_be_made_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be written: File exists"):
        RunStore(tmp_path / "file")
