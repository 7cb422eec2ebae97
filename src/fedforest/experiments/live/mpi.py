"""The papers' engine: the same vertical training over MPI ranks, in one process, and over gRPC."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedforest import VerticalForestClassifier
from fedforest.errors import TransportError
from fedforest.experiments.experiment import (
    Cell,
    Check,
    Experiment,
    Measured,
    Report,
    Setting,
    judge,
)
from fedforest.experiments.figures import add_legend, draw_groups, new_figure
from fedforest.experiments.findings import Finding, seconds
from fedforest.experiments.live import mpi_trial
from fedforest.experiments.live.federation import LiveFederation
from fedforest.experiments.record import Record
from fedforest.experiments.vertical.methods import Division, divide

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("spambase", "waveform")
REPETITIONS = 5
MPI, GRPC = "MPI ranks", "gRPC, mutual TLS"
JOB_SECONDS = 600.0
LABEL, TRAINING = "label", "training"
# all ranks on this machine, more than it has cores; loopback only
MPIRUN = ("--allow-run-as-root", "--oversubscribe", "--host", "localhost:16")


def _cells(setting: Setting) -> Iterator[Cell]:
    for name in NAMES:
        live = cache(partial(_open, setting, name))
        times = setting.times(REPETITIONS, 1)
        yield Cell(name, MPI, "", times, partial(_train_over_mpi, setting, name))
        yield Cell(name, GRPC, "", times, partial(_train_over_grpc, setting, name, live))


def _parameters(setting: Setting, division: Division) -> dict[str, Any]:
    n_trees = 10 if setting.quick else 100
    return {"n_estimators": n_trees, "random_state": division.seed, "n_jobs": 1}


def _train_over_mpi(setting: Setting, name: str, repetition: int) -> Measured:
    division = divide(setting.read(name), setting.seed, 0)
    parameters = _parameters(setting, division) | {"random_state": division.seed + repetition}
    return run_job(division, parameters)


def run_job(division: Division, parameters: dict[str, Any]) -> Measured:
    """Start an MPI job of the trial, a rank for each party and one for the coordinator."""
    with tempfile.TemporaryDirectory() as folder:
        source, outcome = Path(folder) / "tables.npz", Path(folder) / "outcome.json"
        given: dict[str, Any] = {**division.train, "y": division.y_train}
        np.savez(source, parameters=json.dumps(parameters), **given)
        mpirun = str(Path(sys.executable).parent / "mpirun")
        ranks = ["-n", str(1 + len(division.train))]
        script = [sys.executable, "-m", "fedforest", "mpi", mpi_trial.__file__]
        _run([mpirun, *MPIRUN, *ranks, *script, str(source), str(outcome)])
        measured: Measured = json.loads(outcome.read_text())
        return measured


def _run(command: list[str]) -> None:
    """Run a job; one that takes too long is asked to end, because a kill would leave its ranks."""
    environment = {**os.environ, "OMPI_MCA_btl_tcp_if_include": "lo"}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as job:
        try:
            _, told = job.communicate(timeout=JOB_SECONDS)
        except subprocess.TimeoutExpired:
            job.terminate()
            job.communicate()
            raise TransportError(f"the MPI job took longer than {JOB_SECONDS:.0f} s") from None
    if job.returncode:
        raise TransportError(f"the MPI job failed: {told[-500:]}")


def _open(setting: Setting, name: str) -> LiveFederation:
    import pyarrow  # noqa: PLC0415 - an extra that only experiments need

    division = divide(setting.read(name), setting.seed, 0)
    tables = {
        party: {f"column_{number}": values for number, values in enumerate(X.T)}
        for party, X in division.train.items()
    }
    tables["party_1"][LABEL] = division.y_train
    folder = setting.stack.enter_context(tempfile.TemporaryDirectory())
    by_party = {party: {TRAINING: pyarrow.table(columns)} for party, columns in tables.items()}
    return setting.stack.enter_context(LiveFederation(Path(folder), by_party))


def _train_over_grpc(
    setting: Setting, name: str, live: Callable[[], LiveFederation], repetition: int
) -> Measured:
    """Train as a user of the federation, the first time once unmeasured; compare the leaves."""
    division = divide(setting.read(name), setting.seed, 0)
    parameters = _parameters(setting, division) | {"random_state": division.seed + repetition}
    data = dict.fromkeys(division.train, TRAINING)
    profile = str(live().folder / "user")
    forest = VerticalForestClassifier(transport=profile, **parameters)
    forest.fit(data, LABEL)
    started = time.perf_counter()
    forest.fit(data, LABEL)
    wall = time.perf_counter() - started
    here = VerticalForestClassifier(**parameters).fit(division.train, division.y_train)
    same = np.array_equal(forest.apply(data), here.apply(division.train))
    return {"wall": wall, "identical": float(same), "bytes": sum(forest.bytes_sent_.values())}


def _median(record: Record, name: str, method: str, quantity: str = "wall") -> float:
    values = record.values(name, method, "", quantity)
    return float(np.median(values)) if len(values) else float("nan")


def _report(record: Record) -> Report:
    rows = []
    for name in record.groups():
        walls = [_median(record, name, MPI, "process")]
        walls += [_median(record, name, method) for method in (MPI, GRPC)]
        row = [name, *(seconds(wall) for wall in walls), f"{walls[2] / walls[1]:.1f}×"]
        n_bytes = _median(record, name, MPI, "bytes")
        rows.append([*row, f"{n_bytes:,.0f}", str(record.n_repetitions((name, MPI, "")))])
    header = ["data set", "one process", MPI, GRPC, "gRPC / MPI", "bytes sent", "repetitions"]
    table = Finding(
        "Seconds of a training",
        header,
        rows,
        "Median wall time of `fit`. MPI and one process take turns in one job. gRPC: a live "
        "federation, with its policies, journals and mutual TLS.",
    )
    return Report([table], [c for name in record.groups() for c in _checks(record, name)], _NOTES)


_NOTES = (
    "Two parties and a coordinator on one machine, a thread each, 100 trees grown out. "
    "`mpiexec -n 3 fedforest mpi SCRIPT` runs a script of your own whose estimators have "
    '`transport="mpi"`.',
)


def _checks(record: Record, name: str) -> Iterator[Check]:
    for method, what in ((MPI, "file of each role"), (GRPC, "leaf of each row")):
        same = record.values(name, method, "", "identical")
        yield judge(
            f"{name}: the forest over {method} is that of one process, every {what}",
            holds=bool(same.all()) if len(same) else None,
            why=f"{int(same.sum())} of {len(same)} trainings are identical",
        )


def _draw(record: Record) -> "Figure":
    figure, panels = new_figure(1)
    names, series = record.groups(), []
    for label, method, quantity in (
        ("one process", MPI, "process"),
        (MPI, MPI, "wall"),
        (GRPC, GRPC, "wall"),
    ):
        values = [record.values(name, method, "", quantity) for name in names]
        means = [float(v.mean()) if len(v) else float("nan") for v in values]
        spreads = [float(v.std(ddof=1)) if len(v) > 1 else 0.0 for v in values]
        series.append((label, means, spreads))
    draw_groups(panels[0], names, series, None)
    panels[0].set_ylabel("seconds of a training")
    panels[0].set_ylim(bottom=0)
    add_legend(figure, panels)
    return figure


MPI_EXPERIMENT = Experiment(
    "mpi",
    "The same training over MPI ranks, in one process and over gRPC",
    "Federated Forest, section 5.1 (its engine)",
    NAMES,
    _cells,
    _report,
    _draw,
    "5 minutes",
    extras=("mpi4py", "grpc", "pyarrow"),
)
