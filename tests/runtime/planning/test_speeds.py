"""Speeds are remembered for each protocol and kind of labels, on the machine they are of."""

from pathlib import Path

import pytest

from fedforest.runtime.planning.speeds import (
    FILE_NAME,
    STANDARD,
    Speeds,
    keep_speeds,
    load_speeds,
    name_kind,
)

MEASURED = Speeds(1.0, 2.0, 3.0, 4.0, 5.0, is_measured=True)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDFOREST_CACHE", str(tmp_path))
    return tmp_path


def test_speeds_are_standard_until_they_are_measured(cache: Path) -> None:
    kind = name_kind("vertical", 2)
    assert load_speeds(kind) == STANDARD[kind]
    keep_speeds(kind, MEASURED)
    assert load_speeds(kind) == MEASURED
    assert load_speeds(name_kind("vertical", 0)) == STANDARD["vertical numbers"]
    assert (cache / FILE_NAME).exists()


def test_a_damaged_file_or_one_of_another_machine_counts_as_none(cache: Path) -> None:
    kind = name_kind("horizontal", 7)
    keep_speeds(kind, MEASURED)
    path = cache / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b'"machine":"', b'"machine":"another '))
    assert not load_speeds(kind).is_measured
    path.write_bytes(b"{")
    assert not load_speeds(kind).is_measured
