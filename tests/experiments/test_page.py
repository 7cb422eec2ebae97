"""The published page is made from the published repetitions, and explains what does not hold."""

import json

import pytest

from fedforest.experiments.experiment import FAILS, HOLDS, UNTESTED, Check, Report, Setting, judge
from fedforest.experiments.page import PAGE, Section, make_section, make_sections, tell_sections
from fedforest.experiments.record import Record
from fedforest.experiments.registry import EXPERIMENTS
from tests.docs.documents import DOCS

RESULTS = DOCS / "results"
PUBLISHED = {
    section.experiment.name: section
    for section in make_sections(EXPERIMENTS.values(), Setting(), RESULTS)
}
of_every_result = pytest.mark.parametrize("name", PUBLISHED)


def test_every_experiment_is_published() -> None:
    assert set(PUBLISHED) == set(EXPERIMENTS)


@of_every_result
def test_a_conclusion_that_does_not_hold_has_a_measured_cause(name: str) -> None:
    failed = [check for check in PUBLISHED[name].report.checks if check.verdict == FAILS]
    assert [check.claim for check in failed if not check.cause or "yet" in check.cause] == []


@of_every_result
def test_the_published_verdicts_are_those_of_the_published_repetitions(name: str) -> None:
    told = json.loads((RESULTS / f"{name}.json").read_text())
    assert told["checks"] == [check._asdict() for check in PUBLISHED[name].report.checks]


def test_the_published_page_is_made_from_the_published_repetitions() -> None:
    assert (RESULTS / PAGE).read_text() == tell_sections(list(PUBLISHED.values()))


def test_a_cause_is_told_where_a_conclusion_does_not_hold_and_only_there() -> None:
    checks = [
        judge("one", holds=False, why="1 < 2", cause="Two is more."),
        judge("two", holds=True, why="2 > 1", cause="Two is more."),
    ]
    assert checks == [Check("one", FAILS, "1 < 2", "Two is more."), Check("two", HOLDS, "2 > 1")]
    section = Section(EXPERIMENTS["mpi"], Record("mpi", Setting().describe()), Report([], checks))
    assert [finding.rows for finding in section.findings()] == [
        [["one", FAILS, "1 < 2"], ["two", HOLDS, "2 > 1"]],
        [["one", "Two is more."]],
    ]


@pytest.mark.parametrize("small", ["quick", "synthetic"])
def test_a_small_version_judges_nothing(small: str) -> None:
    published = PUBLISHED["kppd-table-1"]
    settings = Setting().describe() | {small: True}
    record = Record("kppd-table-1", settings, measured=published.record.measured)
    told = make_section(published.experiment, record).report.checks
    assert [check.claim for check in told] == [c.claim for c in published.report.checks]
    assert {check.verdict for check in told} == {UNTESTED}
    assert "kppd-table-1.png" in tell_sections([make_section(published.experiment, record)])
