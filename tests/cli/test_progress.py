"""What somebody who watches a run is told, from nothing but its events."""

import json
import re
import time

import pytest

import fedforest.cli.progress as progress_module
from fedforest.cli.progress import watching
from fedforest.cli.terminal import Terminal
from fedforest.reports.formats import format_bytes, format_seconds
from fedforest.reports.progress import RunProgress
from fedforest.runtime.messages.results import Exchanged, Waiting


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def exchange(trees: tuple[int, int], level: int, **more: float) -> Exchanged:
    note = {"trees": list(trees), "level": level, "open_nodes": 8, **more}
    return Exchanged("FindSplits", 2, {"bank": 400}, {"bank": 600}, 0.5, note)


def prepare() -> Exchanged:
    return Exchanged("ShareLabels", 1, {"bank": 1}, {"bank": 1}, 0.1, {})


def test_steps_outside_of_trees_are_named_in_words() -> None:
    progress = RunProgress(100)
    progress.hear(prepare())
    assert progress.describe() == "share labels, 1 exchange, 2 B"


def test_time_left_is_guessed_from_the_depth_that_is_allowed() -> None:
    clock = Clock()
    progress = RunProgress(10, max_depth=4, clock=clock)
    progress.hear(exchange((0, 10), 1))
    clock.now = 3.0
    assert progress.share == 0.25
    assert progress.seconds_left == pytest.approx(9.0)


def test_nothing_is_guessed_before_the_depth_of_trees_is_known() -> None:
    progress = RunProgress(20, clock=Clock())
    progress.hear(exchange((0, 10), 7))
    assert progress.seconds_left is None
    progress.hear(exchange((10, 20), 0))  # a batch is complete, and says how deep trees are
    assert progress.share == 0.5
    assert progress.seconds_left == pytest.approx(1.0)  # two exchanges of half a second so far


def test_time_left_is_guessed_from_the_ids_that_are_compared() -> None:
    clock = Clock()
    progress = RunProgress(10, clock=clock)
    progress.hear(prepare())
    clock.now = 100.0  # before the alignment began
    for done in (1, 2):
        note = {"part": "alignment", "done": done, "total": 8}
        progress.hear(Exchanged("BlindIds", 2, {}, {}, 3.0, note))
        clock.now += 3.0
    assert progress.share == 0.25
    assert progress.seconds_left == pytest.approx(27.0)  # 9 seconds since the first one began
    assert "alignment: blind ids, 25% of the ids" in progress.describe()
    assert "left" in progress.describe()


def test_the_score_of_earlier_batches_is_told_until_there_is_another() -> None:
    progress = RunProgress(20)
    progress.hear(exchange((10, 20), 0, oob_score=0.91234))
    progress.hear(prepare())
    assert "out-of-bag score 0.9123" in progress.describe()


def test_a_level_that_is_asked_about_again_is_no_further_level() -> None:
    progress = RunProgress(10, max_depth=5)
    told = []
    for level, step in ((4, 4), (4, 4), (4, 5), (4, 5), (4, 6)):
        progress.hear(exchange((0, 10), level, step=step))
        told.append(progress.doing)
    assert told == ["level 4, 8 open nodes"] * 2 + ["level 4 again, 8 open nodes"] * 3
    assert progress.share == 0.8
    progress.hear(exchange((10, 20), 4, step=4))  # of the next trees
    assert progress.doing == "level 4, 8 open nodes"


def test_parts_of_a_run_are_named_and_begin_anew() -> None:
    progress = RunProgress(20, max_depth=4)
    progress.hear(exchange((0, 20), 4))
    assert progress.share == 1.0
    note = {"trees": [0, 20], "level": 1, "open_nodes": 8, "part": "alone, bank"}
    progress.hear(Exchanged("FindSplits", 1, {}, {}, 0.5, note))
    assert "alone, bank: level 1" in progress.describe()
    assert progress.share == 0.25


def test_a_run_that_waits_says_for_whom() -> None:
    progress = RunProgress(20)
    progress.hear(Waiting(["shop"]))
    assert progress.describe().startswith("waiting for shop, not connected to the coordinator")
    assert progress.is_anybody_away
    progress.hear(Waiting([]))
    assert progress.describe().startswith("all parties are connected again")
    assert not progress.is_anybody_away


def test_away_from_a_terminal_a_stage_is_told_at_once_and_then_every_few_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = iter(range(100))
    progress = RunProgress(10, clock=lambda: 0.5 * next(seconds))
    with watching(Terminal(), "ab", progress) as tell:
        for level in range(8):
            tell(exchange((0, 10), level))
        tell(Waiting(["shop"]))
        tell(exchange((0, 10), 8))
    told = capsys.readouterr()
    assert told.out == ""
    lines = [line.split(", ")[0] for line in told.err.splitlines()]
    assert lines[0] == "level 0"
    assert lines[-2:] == ["waiting for shop", "level 8"]
    assert 3 <= len(lines) < 8


def test_a_warning_of_the_coordinator_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    warned = Exchanged("AgreeOnTable", 2, {}, {}, 0.1, {"warning": "noise exceeds"})
    with watching(Terminal(), "ab", RunProgress(10)) as tell:
        tell(warned)
        tell(exchange((0, 10), 1))
    assert capsys.readouterr().err.count("Warning: noise exceeds") == 1


def test_with_json_every_event_is_one_object_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with watching(Terminal(as_json=True), "ab", RunProgress(10)) as tell:
        tell(exchange((0, 10), 3))
        tell(Waiting(["shop"]))
    told = capsys.readouterr()
    events = [json.loads(line) for line in told.out.splitlines()]
    assert [event["event"] for event in events] == ["exchanged", "waiting"]
    assert (events[0]["run"], events[0]["note"]["level"]) == ("ab", 3)
    assert told.err == ""


def test_a_silence_is_explained_once_unless_a_party_is_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "SILENT_SECONDS", 0.02)
    explained = "compiles kernels, once"
    waiting = RunProgress(10)
    with watching(Terminal(), "ab", waiting) as tell:
        tell(Waiting(["shop"]))
        time.sleep(0.2)
    assert explained not in capsys.readouterr().err
    told = ""
    with watching(Terminal(), "ab", RunProgress(10)) as tell:
        tell(prepare())
        deadline = time.monotonic() + 30.0
        while explained not in told and time.monotonic() < deadline:
            time.sleep(0.01)
            told += capsys.readouterr().err
        time.sleep(0.2)
    assert (told + capsys.readouterr().err).count(explained) == 1


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(Terminal(quiet=True), "ab", RunProgress(10)) as tell:
        tell(exchange((0, 10), 3))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB")]
)
def test_bytes_are_told_in_a_fitting_unit(n_bytes: int, text: str) -> None:
    assert format_bytes(n_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.24, "1.2 s"), (75.0, "75 s"), (600.0, "10 min"), (9000.0, "2.5 h")]
)
def test_durations_are_told_in_a_fitting_unit(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_terminal_shows_colours_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_plain: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if is_plain:
        monkeypatch.setenv("NO_COLOR", "1")
    with watching(Terminal(), "0" * 32, RunProgress(10, max_depth=4)) as tell:
        tell(exchange((0, 10), 2))
    drawn = capsys.readouterr().err
    assert "level 2" in drawn
    assert bool(COLOUR.search(drawn)) != is_plain
