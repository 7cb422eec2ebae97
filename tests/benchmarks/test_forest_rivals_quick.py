"""The comparison with the fastest libraries runs, and says who is absent."""

import pytest

from benchmarks.comparisons import forest_rivals
from benchmarks.contestants import SKLEARN_EXTRA


@pytest.mark.slow
def test_a_quick_run_times_those_who_are_there_and_names_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ImportError("not installed", name="sklearnex")

    monkeypatch.setitem(forest_rivals.BUILD, forest_rivals.INTELEX_EXTRA, fail)
    forest_rivals.main(["--quick", "--tasks", "rows-depth-6"])
    told = capsys.readouterr().out
    assert forest_rivals.ROWS in told
    assert SKLEARN_EXTRA in told
    assert f"{forest_rivals.INTELEX_EXTRA}: not run, sklearnex cannot be imported" in told
    assert "missed" not in told  # a quick run judges no target


def test_every_target_is_about_a_rival_of_its_task() -> None:
    for task in forest_rivals.TASKS:
        assert set(task.targets) <= set(task.rivals)
        assert {task.ours, *task.rivals} <= forest_rivals.BUILD.keys()
