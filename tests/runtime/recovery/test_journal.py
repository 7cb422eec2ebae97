"""A journal keeps what it promised, whatever happens to its file."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import DamagedJournalError, StorageError
from fedforest.runtime.recovery.journal import Journal
from tests.runtime.disks import disk_of

RECORDS = [b"one", b"", b"\x00" * 40, bytes(range(256)), b"last"]


def write_journal(path: Path, records: list[bytes], opening: bytes = b"opening") -> list[int]:
    """A journal of these records; where each of them ends."""
    ends = []
    with Journal.create(path, opening) as journal:
        ends.append(path.stat().st_size)
        for record in records:
            journal.append(record)
            ends.append(path.stat().st_size)
    return ends


def read_journal(path: Path) -> list[bytes]:
    with Journal.open(path) as journal:
        return list(journal.records())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@given(records=st.lists(st.binary(max_size=300), max_size=8), opening=st.binary(max_size=50))
def test_records_are_read_as_they_were_appended(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], opening: bytes
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    write_journal(path, records, opening)
    with Journal.open(path) as journal:
        assert journal.opening == opening
        assert journal.n_records == len(records)
        assert list(journal.records()) == records


def test_a_journal_that_was_opened_again_is_appended_to(path: Path) -> None:
    write_journal(path, RECORDS)
    with Journal.open(path) as journal:
        journal.append(b"more")
        assert list(journal.records()) == [*RECORDS, b"more"]
    assert read_journal(path) == [*RECORDS, b"more"]


def test_a_file_cut_at_any_byte_is_recovered_to_the_last_whole_record(path: Path) -> None:
    ends = write_journal(path, RECORDS)
    whole = path.read_bytes()
    for size in range(ends[0], len(whole) + 1):
        path.write_bytes(whole[:size])
        n_whole = sum(end <= size for end in ends[1:])
        with Journal.open(path) as journal:
            assert list(journal.records()) == RECORDS[:n_whole]
            assert path.stat().st_size == ends[n_whole]
            journal.append(b"after the crash")
        assert read_journal(path) == [*RECORDS[:n_whole], b"after the crash"]


def test_a_file_cut_inside_its_opening_is_refused(path: Path) -> None:
    ends = write_journal(path, [])
    whole = path.read_bytes()
    for size in range(ends[0]):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedJournalError, match="begin the run anew"):
            Journal.open(path)


def test_any_changed_byte_is_noticed_and_file_and_record_are_named(path: Path) -> None:
    ends = write_journal(path, RECORDS)
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(StorageError) as caught:
            Journal.open(path)
        assert str(path) in str(caught.value)
        if at >= 12:  # behind the head of the file
            number = sum(end <= at for end in ends)
            assert isinstance(caught.value, DamagedJournalError)
            assert f"record {number} " in str(caught.value)
        assert path.read_bytes() == damaged, "a damaged file is left for people to look at"


def test_a_missing_or_swapped_record_is_noticed(path: Path) -> None:
    ends = write_journal(path, [b"aaaa", b"bbbb", b"cccc"])
    whole = path.read_bytes()
    head, first, second = (whole[a:b] for a, b in zip([0, *ends[:2]], ends[:3], strict=True))
    rest = whole[ends[2] :]
    for changed in (head + second + rest, head + second + first + rest, head + first * 2 + rest):
        path.write_bytes(changed)
        with pytest.raises(DamagedJournalError, match=r"record [12] "):
            Journal.open(path)


def test_zeros_that_a_loss_of_power_left_behind_are_cut_off(path: Path) -> None:
    write_journal(path, RECORDS)
    whole = path.read_bytes()
    for n_zeros in (1, 27, 28, 29, 5000):
        path.write_bytes(whole + bytes(n_zeros))
        assert read_journal(path) == RECORDS
        assert path.read_bytes() == whole


def test_a_full_disk_loses_nothing_and_the_record_can_be_appended_when_there_is_room(
    path: Path,
) -> None:
    end = write_journal(path, RECORDS)[-1]
    with Journal.open(path) as journal:
        for room in (0, 1, 11, 12, 27, 28, 100):
            with disk_of(end + room), pytest.raises(StorageError, match="make room") as caught:
                journal.append(b"x" * 200)
            assert str(path) in str(caught.value)
            assert path.stat().st_size == end
            assert list(journal.records()) == RECORDS
        journal.append(b"y")
    assert read_journal(path) == [*RECORDS, b"y"]


def test_a_full_disk_leaves_no_journal_that_has_only_begun(path: Path) -> None:
    with disk_of(30), pytest.raises(StorageError):
        Journal.create(path, b"opening" * 10)
    assert not path.exists()
    assert write_journal(path, RECORDS)  # what is left of the first attempt is in nobody's way


def fail(_: int) -> None:
    raise OSError(5, "Input/output error")


def test_after_a_failed_sync_nothing_is_appended_before_the_file_was_looked_at(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system forgets pages that it could not write: only reading shows what is there."""

    write_journal(path, RECORDS)
    with Journal.open(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(StorageError, match="Input/output error"):
                journal.append(b"x")
        with pytest.raises(StorageError, match="open it anew"):
            journal.append(b"x")
    assert read_journal(path)[: len(RECORDS)] == RECORDS


def test_what_is_synced_beside_other_work_is_waited_for(path: Path) -> None:
    with Journal.create(path, b"") as journal:
        for record in RECORDS:
            journal.write(record)
            journal.sync_soon()
        assert list(journal.records()) == RECORDS
        journal.wait()
        journal.wait()  # there is nothing to wait for any more
    assert read_journal(path) == RECORDS


def test_a_disk_that_fails_beside_other_work_is_told_to_who_waits_and_the_journal_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(path, RECORDS)
    with Journal.open(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            journal.write(b"one more")
            journal.sync_soon()
            with pytest.raises(StorageError, match="Input/output error"):
                journal.wait()
        with pytest.raises(StorageError, match="open it anew"):
            journal.write(b"another")
    assert read_journal(path) == [*RECORDS, b"one more"]


def test_a_journal_that_is_closed_while_it_syncs_is_on_the_disk(path: Path) -> None:
    with Journal.create(path, b"") as journal:
        journal.write(b"last")
        journal.sync_soon()
    assert read_journal(path) == [b"last"]


def test_the_last_record_can_be_taken_back_once(path: Path) -> None:
    write_journal(path, RECORDS)
    with Journal.open(path) as journal:
        for _ in range(2):
            journal.append(b"not answered")
            journal.take_back()
            assert list(journal.records()) == RECORDS
            with pytest.raises(StorageError, match="no last record"):
                journal.take_back()
        journal.append(b"shorter")
    assert read_journal(path) == [*RECORDS, b"shorter"]
    with Journal.open(path) as journal:
        journal.take_back()
    assert read_journal(path) == RECORDS


def test_an_opening_is_not_taken_back(path: Path) -> None:
    with Journal.create(path, b"opening") as journal:
        with pytest.raises(StorageError, match="no last record"):
            journal.take_back()
        assert journal.opening == b"opening"


def test_the_thread_of_a_closed_journal_serves_the_next_one(path: Path) -> None:
    counts = set()
    for number in range(5):
        with Journal.create(path.with_name(str(number)), b"") as journal:
            journal.write(b"x")
            journal.sync_soon()
        counts.add(threading.active_count())
    assert len(counts) == 1


def test_a_journal_in_a_forked_process_has_a_thread_of_its_own(path: Path) -> None:
    with Journal.create(path.with_name("parent"), b"") as journal:
        journal.write(b"x")
        journal.sync_soon()
    script = (
        "import os, sys; from pathlib import Path\n"
        "from fedforest.runtime.recovery.journal import Journal\n"
        "def sync(name):\n"
        "    with Journal.create(Path(sys.argv[1]).with_name(name), b'') as journal:\n"
        "        journal.write(b'x'); journal.sync_soon(); journal.wait()\n"
        "sync('before')\n"
        "child = os.fork()\n"
        "sync('child' if child == 0 else 'after')\n"
        "if child == 0: os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True, timeout=60)


def test_one_process_at_a_time_has_a_journal_open(path: Path) -> None:
    write_journal(path, RECORDS)
    script = (
        "import sys; from pathlib import Path\n"
        "from fedforest.runtime.recovery.journal import Journal\n"
        "Journal.open(Path(sys.argv[1]))"
    )
    with Journal.open(path):
        with pytest.raises(StorageError, match="in use"):
            Journal.open(path)
        other = subprocess.run(
            [sys.executable, "-c", script, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "StorageError" in other.stderr
        assert "in use by another process" in other.stderr
    assert read_journal(path) == RECORDS


def test_a_new_journal_never_replaces_one(path: Path) -> None:
    write_journal(path, RECORDS)
    with pytest.raises(StorageError, match="already"):
        Journal.create(path, b"")
    assert read_journal(path) == RECORDS


def test_a_journal_that_is_not_there_or_cannot_be_made_is_a_named_error(path: Path) -> None:
    with pytest.raises(StorageError, match="cannot open"):
        Journal.open(path)
    with pytest.raises(StorageError, match="cannot create"):
        Journal.create(path / "nowhere" / "journal", b"")


def test_a_journal_of_another_version_names_both_versions(path: Path) -> None:
    write_journal(path, RECORDS)
    changed = bytearray(path.read_bytes())
    changed[8] = 2
    path.write_bytes(changed)
    with pytest.raises(StorageError, match=r"version 2.*version 1"):
        Journal.open(path)


def test_only_its_owner_can_read_a_journal(path: Path) -> None:
    before = os.umask(0)
    try:
        write_journal(path, RECORDS)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_records_are_read_one_at_a_time(path: Path) -> None:
    record = os.urandom(1 << 20)
    write_journal(path, [record] * 20)
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from fedforest.runtime.recovery.journal import Journal\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "journal = Journal.open(Path(sys.argv[1]))\n"
        "assert sum(len(record) for record in journal.records()) == 20 << 20\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    grown = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert int(grown.stdout) < 8 << 10  # kilobytes
