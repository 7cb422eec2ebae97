"""`fedforest reproduce`, as users start it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.errors import ConfigurationError
from fedforest.experiments.experiment import Cell, Setting
from fedforest.experiments.page import write_pages
from fedforest.experiments.record import Record
from fedforest.experiments.registry import EXPERIMENTS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def run(*words: str) -> str:
    outcome = CliRunner().invoke(app, ["reproduce", *words], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_list_names_every_experiment_with_its_source_and_its_time() -> None:
    listed = dict(line.split(maxsplit=1) for line in run("list").splitlines())
    assert listed.keys() == EXPERIMENTS.keys()
    for name, experiment in EXPERIMENTS.items():
        assert listed[name].startswith(experiment.source)
        assert listed[name].endswith(f"({experiment.full_run})")


def test_an_unknown_experiment_is_refused_with_the_way_to_the_list() -> None:
    with pytest.raises(ConfigurationError, match="reproduce list"):
        run("ff-table-9")


def test_missing_data_are_told_in_two_lines_with_their_source_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDFOREST_DATA", str(tmp_path))
    outcome = CliRunner().invoke(app, ["reproduce", "kppd-fig-2", "--output", str(tmp_path / "o")])
    assert isinstance(outcome.exception, ConfigurationError)
    told = [line for line in outcome.stderr.splitlines() if line]
    assert len(told) == 4  # of two data sets
    assert "mfeat.parquet is missing" in told[0]
    assert "archive.ics.uci.edu" in told[0]
    assert "FEDFOREST_DATA" in told[1]
    assert not (tmp_path / "o").exists()


def test_without_matplotlib_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        run("kppd-table-1", "--output", str(tmp_path / "o"))
    assert not (tmp_path / "o").exists()


def test_a_quick_experiment_on_made_tables_leaves_page_figure_tables_and_repetitions(
    tmp_path: Path,
) -> None:
    shown = run("kppd-table-1", "--quick", "--synthetic", "--output", str(tmp_path))
    assert "does not hold" not in shown
    names = {path.name for path in tmp_path.iterdir()}
    stems = {f"kppd-table-1.{kind}" for kind in ("json", "png", "raw.json.gz")}
    assert names == {"index.md", "index.html", *stems}
    page = (tmp_path / "index.md").read_text()
    assert "nothing here is a result" in page
    assert str(tmp_path) not in page
    assert "<img" in (tmp_path / "index.html").read_text()


def test_an_experiment_that_fails_is_told_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Setting) -> Iterator[Cell]:
        raise RuntimeError("no party came")
        yield

    broken = replace(EXPERIMENTS["kppd-fig-2"], cells=fail, data=())
    monkeypatch.setitem(EXPERIMENTS, "kppd-fig-2", broken)
    words = ["reproduce", "--quick", "--synthetic", "--output", str(tmp_path)]
    outcome = CliRunner().invoke(app, [*words, "kppd-fig-2", "kppd-table-1"])
    assert outcome.exit_code == 1
    assert "kppd-fig-2 failed; its repetitions are kept. no party came" in outcome.stderr
    assert outcome.stderr.splitlines()[-1] == "fedforest: 1 failed: kppd-fig-2; see above"
    assert (tmp_path / "kppd-table-1.json").exists()
    with pytest.raises(RuntimeError, match="no party came"):
        run("kppd-fig-2", "--quick", "--synthetic", "--output", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_on_made_tables(name: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    if "mpi4py" in experiment.extras:
        pytest.importorskip("mpi4py")
    run(name, "--quick", "--synthetic", "--jobs", "2", "--output", str(tmp_path))
    record = Record.open(name, Setting(quick=True, synthetic=True).describe(), tmp_path)
    report = experiment.report(record)
    assert report.checks
    assert all(table.rows for table in report.tables)


@pytest.mark.slow
def test_the_committed_page_is_what_the_committed_repetitions_say(tmp_path: Path) -> None:
    for raw in RESULTS.glob("*.raw.json.gz"):
        (tmp_path / raw.name).write_bytes(raw.read_bytes())
    write_pages(EXPERIMENTS.values(), Setting(), tmp_path)
    assert (tmp_path / "index.md").read_text() == (RESULTS / "index.md").read_text()
