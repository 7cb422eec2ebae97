"""`fedforest mpi`: run a script whose parties are the ranks of an MPI job."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer


def mpi(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python script; its arguments may follow.")],
) -> None:
    """Run a script at rank 0; the other ranks are the parties of its trainings.

    Estimators of the script with transport="mpi" train over the ranks, one for each party and one
    for the coordinator. All ranks must belong to one user: there are no certificates.

    Example: fedforest mpi train.py (at each rank: mpiexec -n 3 fedforest mpi train.py)
    """
    import runpy

    from fedforest.errors import ConfigurationError
    from fedforest.extras import import_extra
    from fedforest.runtime.trainings.mpi_ranks import serve

    transport = import_extra("fedforest.transport.mpi", "`fedforest mpi`")
    if not script.is_file():
        raise ConfigurationError(f"there is no script {str(script)!r}")
    with transport.ending_all_ranks_on_error():
        job = transport.open_job()
        if job.rank != 0:
            serve()
            return
        sys.argv = [str(script), *context.args]
        runpy.run_path(str(script), run_name="__main__")
        for rank in range(1, job.size):
            job.give(rank, None)
