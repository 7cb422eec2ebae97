"""A flood of warnings becomes a few lines, which say how many there were."""

import logging

import pytest

from fedforest.transport.rare_lines import LINE_SECONDS, RareLine


def test_a_flood_is_a_few_lines_and_the_next_one_counts_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    line = RareLine(logging.getLogger("fedforest.test"), at_once=2, _since=now)
    for number in range(1000):
        line.warn("refused %d", number)
    assert [record.getMessage() for record in caplog.records] == [
        "refused 0 (1 in all)",
        "refused 1 (2 in all)",
    ]
    now += LINE_SECONDS
    line.warn("refused %d", 1000)
    line.warn("refused %d", 1001)
    assert [record.getMessage() for record in caplog.records][2:] == ["refused 1000 (1001 in all)"]
