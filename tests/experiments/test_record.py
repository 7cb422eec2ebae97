"""Repetitions are kept as they come: a run that was stopped goes on where it ended."""

from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError, DataError
from fedforest.experiments.record import Key, Record

SETTINGS = {"seed": 0, "quick": True, "synthetic": False}
KEY: Key = ("spambase", "FF", "")
RAW, PARTIAL = "table.raw.json.gz", "table.partial.jsonl"


def open_record(folder: Path | None, **settings: object) -> Record:
    return Record.open("table", SETTINGS | settings, folder)


def test_what_was_closed_is_read_as_it_was(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    record.add(KEY, {"score": 0.123456789123, "wall": 2.0})
    record.add(KEY, {"score": 0.5})
    record.add(("spambase", "RF1", "depth 4"), {"score": 1.0})
    record.close()
    again = open_record(tmp_path)
    assert again.values(*KEY).tolist() == [0.12345679, 0.5]
    assert again.values(*KEY, "wall").tolist() == [2.0]
    assert again.points("spambase", "RF1") == ["depth 4"]
    assert again.measured == record.measured
    assert [run["added"] for run in again.runs] == [{"spambase": 3}]


def test_a_run_that_was_killed_loses_no_repetition_that_ended(tmp_path: Path) -> None:
    first = open_record(tmp_path)
    first.add(KEY, {"score": 0.1})
    first.close()
    killed = open_record(tmp_path)
    killed.add(KEY, {"score": 0.2})
    killed.add(KEY, {"score": 0.3})
    with (tmp_path / PARTIAL).open("a") as file:
        file.write('{"key": "spambase | FF | ", "sco')  # torn
    gone_on = open_record(tmp_path)
    gone_on.add(KEY, {"score": 0.4})
    gone_on.close()
    assert open_record(tmp_path).values(*KEY).tolist() == [0.1, 0.2, 0.3, 0.4]
    assert [run["added"] for run in open_record(tmp_path).runs] == [
        {"spambase": 1},
        {"spambase": 2},
        {"spambase": 1},
    ]
    assert not (tmp_path / PARTIAL).exists()


def test_a_torn_line_is_no_part_of_the_line_that_follows(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    record.add(KEY, {"score": 0.1})
    with (tmp_path / PARTIAL).open("a") as file:
        file.write('{"key": "spam')
    second = open_record(tmp_path)
    second.add(KEY, {"score": 0.2})
    assert open_record(tmp_path).values(*KEY).tolist() == [0.1, 0.2]


def test_closing_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    record.add(KEY, {"score": 0.1})
    record.close()
    written = (tmp_path / RAW).read_bytes()
    open_record(tmp_path).close()
    assert (tmp_path / RAW).read_bytes() == written


@pytest.mark.parametrize("is_closed", [True, False])
def test_repetitions_of_other_settings_are_refused(tmp_path: Path, is_closed: bool) -> None:
    record = open_record(tmp_path)
    record.add(KEY, {"score": 0.1})
    if is_closed:
        record.close()
    with pytest.raises(ConfigurationError, match="other settings"):
        open_record(tmp_path, seed=1)


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b\x08"])
def test_a_file_that_holds_no_repetitions_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RAW).write_bytes(content)
    with pytest.raises(DataError, match="holds no repetitions"):
        open_record(tmp_path)


def test_what_is_forgotten_is_gone_from_the_disk(tmp_path: Path) -> None:
    record = open_record(tmp_path)
    record.add(KEY, {"score": 0.1})
    record.close()
    record.forget()
    assert open_record(tmp_path).measured == {}


def test_pairs_are_of_the_repetitions_that_both_have() -> None:
    record = open_record(None)
    other: Key = ("spambase", "RF1", "")
    for score in (0.1, 0.2, 0.3):
        record.add(KEY, {"score": score})
    record.add(other, {"score": 0.5})
    assert [values.tolist() for values in record.paired(KEY, other)] == [[0.1], [0.5]]
    assert record.n_repetitions(KEY, other) == 1
