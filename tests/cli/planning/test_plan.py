"""`fedforest plan`: sizes from options, a table or JSON, and mistakes that name the option."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from fedforest.runtime.planning.speeds import FILE_NAME, STANDARD, keep_speeds

RUN = """
protocol = "vertical"
[parties]
bank = "customers"
shop = "buyers"
[label]
column = "defaulted"
[parameters]
n_estimators = 100
max_depth = 10
"""
SIZES = ["--rows", "100000", "--columns", "bank=20", "--columns", "shop=15"]


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run file; speeds are remembered as if this machine had been measured."""
    monkeypatch.setenv("FEDFOREST_CACHE", str(tmp_path / "cache"))
    standard = STANDARD["vertical two classes"]
    keep_speeds("vertical two classes", msgspec.structs.replace(standard, is_measured=True))
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def plan(path: Path, *options: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, ["plan", str(path), *options])
    return ended.exit_code, ended.stdout, ended.stderr


def test_a_plan_names_time_bytes_and_the_memory_of_each_role(run_file: Path) -> None:
    code, shown, _ = plan(run_file, *SIZES)
    assert code == 0
    assert "92 exchanges" in " ".join(shown.split())
    assert all(role in shown for role in ("coordinator", "bank", "shop"))


def test_json_has_every_figure_and_a_slow_line_costs_its_latency(run_file: Path) -> None:
    sizes = ["--rows", "10000", *SIZES[2:]]
    near = json.loads(plan(run_file, *sizes, "--latency", "0", "--json")[1])
    far = json.loads(plan(run_file, *sizes, "--latency", "50", "--json")[1])
    assert set(near["memory_bytes"]) == {"coordinator", "bank", "shop"}
    assert near["bytes_from"]["bank"] > near["bytes_from"]["shop"]
    assert far["seconds"] - near["seconds"] == pytest.approx(0.05 * near["n_exchanges"], rel=0.1)


def test_batches_side_by_side_wait_for_a_line_together(run_file: Path) -> None:
    near = json.loads(plan(run_file, *SIZES, "--latency", "0", "--json")[1])
    far = json.loads(plan(run_file, *SIZES, "--latency", "500", "--json")[1])
    n_of_a_batch = (near["n_exchanges"] - 4) / 4
    waiting = 0.5 * (n_of_a_batch + 6)
    assert far["seconds"] - near["seconds"] == pytest.approx(waiting, rel=0.1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--rows", "10", "--columns", "bank=3"], "--columns shop=NUMBER"),
        (["--rows", "10", "--columns", "bnak=3"], "'bnak' is none of the run's parties"),
        (["--rows", "many", "--columns", "3"], "'many' is neither NUMBER nor PARTY=NUMBER"),
    ],
)
def test_a_size_that_is_missing_or_of_nobody_is_named(
    run_file: Path, options: list[str], text: str
) -> None:
    code, _, told = plan(run_file, *options)
    assert code == 2
    assert text in " ".join(told.replace("│", " ").split())


def test_measured_speeds_are_used_again(run_file: Path, tmp_path: Path) -> None:
    before = (tmp_path / "cache" / FILE_NAME).read_bytes()
    assert json.loads(plan(run_file, *SIZES, "--json")[1])["is_measured"]
    assert (tmp_path / "cache" / FILE_NAME).read_bytes() == before
