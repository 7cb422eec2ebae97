"""Settings that every test shares."""

import pytest
from hypothesis import settings

SLOW_SECONDS = 5.0  # well above what `slow` stands for, as the machine may be busy

settings.register_profile("fedforest", deadline=None)  # a first example may compile a kernel
settings.load_profile("fedforest")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List tests that took long and are not marked `slow`, so that the marker stays true.

    Not an error: a test that compiles a kernel, or runs on a busy machine, takes long once.
    """
    unmarked = sorted(
        (report.duration, report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
        and report.duration > SLOW_SECONDS
        and "slow" not in report.keywords
    )
    if unmarked:
        terminalreporter.section("long, and not marked slow")
    for seconds, test in unmarked:
        terminalreporter.line(f"{seconds:5.1f} s  {test}")
