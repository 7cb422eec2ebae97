"""The contract of transports holds between the ranks of a real MPI job."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="the extra `mpi` is not installed")

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 540


@pytest.mark.slow
def test_four_ranks_keep_the_contract_of_transports_to_the_byte() -> None:
    mpirun = Path(sys.executable).parent / "mpirun"
    command = [str(mpirun), "--allow-run-as-root", "--oversubscribe", "-n", "4"]
    outcome = subprocess.run(
        [*command, sys.executable, "-m", "mpi4py", "-m", "tests.contracts.mpi_main"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    passed = re.search(r"(\d+) passed", outcome.stdout)
    assert passed is not None
    assert int(passed[1]) >= 20
