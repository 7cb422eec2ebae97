"""Trainings over MPI ranks: real jobs of `mpirun`, byte for byte the forest of one process."""

import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer

from fedforest import VerticalForestClassifier
from fedforest.errors import ConfigurationError, TransportError
from fedforest.experiments.data.reading import PaperTable
from fedforest.experiments.live import mpi
from fedforest.experiments.live.mpi import MPIRUN, run_job
from fedforest.experiments.vertical.methods import divide
from tests.docs.documents import IN_AN_MPI_JOB, python_blocks

pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")

CANCER = PaperTable.of_numbers("cancer", "classification", *load_breast_cancer(return_X_y=True))
DEADLINE_SECONDS = 300


def run_script(folder: Path, script: str, n_ranks: int) -> "subprocess.CompletedProcess[str]":
    (folder / "script.py").write_text(script)
    mpirun = str(Path(sys.executable).parent / "mpirun")
    words = [sys.executable, "-m", "fedforest", "mpi", str(folder / "script.py"), "argument"]
    return subprocess.run(
        [mpirun, *MPIRUN, "-n", str(n_ranks), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.mark.slow
def test_a_forest_over_ranks_is_that_of_one_process_to_the_byte() -> None:
    measured = run_job(divide(CANCER, 1, 0), {"n_estimators": 3, "random_state": 1, "n_jobs": 1})
    assert measured["identical"] == 1.0
    assert measured["stored"] > 0
    assert measured["exchanges"] > 0


@pytest.mark.slow
def test_the_script_of_the_guide_runs_as_it_stands(tmp_path: Path) -> None:
    (guide,) = IN_AN_MPI_JOB
    (block,) = python_blocks(guide)
    ended = run_script(tmp_path, block.code, n_ranks=3)
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout.split()[-1]) > 0.95


@pytest.mark.slow
def test_a_script_hears_of_mistakes_and_gets_its_arguments(tmp_path: Path) -> None:
    script = """
import sys
from fedforest import Encrypted, FederationError, VerticalForestClassifier
X = {"one": [[0.0], [1.0]] * 20, "two": [[0.0], [0.0]] * 20}
for options in ({"labels": Encrypted()}, {"parties": 3}):
    table = [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]] * 20 if "parties" in options else X
    try:
        VerticalForestClassifier(2, transport="mpi", **options).fit(table, [0, 1] * 20)
    except FederationError as error:
        print("refused:", error)
forest = VerticalForestClassifier(2, transport="mpi", random_state=1, oob_score=False)
print("accuracy", forest.fit(X, [0, 1] * 20).score(X, [0, 1] * 20), sys.argv[1:])
"""
    ended = run_script(tmp_path, script, n_ranks=3)
    assert ended.returncode == 0, ended.stderr
    assert "Encrypted() is not offered over MPI" in ended.stdout
    assert "mpiexec -n 4" in ended.stdout
    assert "accuracy 1.0 ['argument']" in ended.stdout


@pytest.mark.slow
def test_an_error_of_the_script_ends_all_ranks(tmp_path: Path) -> None:
    ended = run_script(tmp_path, "raise RuntimeError('the script is wrong')", n_ranks=2)
    assert ended.returncode != 0
    assert "the script is wrong" in ended.stderr


def test_without_a_job_the_estimator_says_how_to_start_one() -> None:
    forest = VerticalForestClassifier(2, transport="mpi", parties=2)
    with pytest.raises(ConfigurationError, match="mpiexec -n 3 fedforest mpi SCRIPT"):
        forest.fit(CANCER.codes, CANCER.y)


@pytest.mark.slow
def test_a_job_that_takes_too_long_ends_with_all_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "JOB_SECONDS", 3.0)
    many = {"n_estimators": 2_000_000, "random_state": 1, "n_jobs": 1}
    with pytest.raises(TransportError, match="longer than 3 s"):
        run_job(divide(CANCER, 1, 0), many)
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True)
    ours = [line.split() for line in listed.stdout.splitlines() if "mpi_trial.py" in line]
    assert [line for line in ours if line[0] == "1"] == []  # ranks whose job is gone
