"""Room on the disk of a role's folder, and whether it can be written at all."""

import shutil
import tempfile
from pathlib import Path

from fedforest.runtime.doctor.findings import Diagnoses, good, problem, warning

_TRIED_BYTES = 2**20
_LITTLE_BYTES = 2**30
_WHY = "journals of runs, models and ledgers are written there, and a run pauses where they cannot"


def examine_disk(home: Path) -> Diagnoses:
    """Write a file into the folder, and look how much room is left."""
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
        free = shutil.disk_usage(home).free
    except OSError as error:
        yield problem(
            "disk",
            f"{home} cannot be written: {error.strerror}",
            _WHY,
            "make room on that disk, or let the service's user write there; paused runs go on with "
            "`fedforest runs resume`",
        )
        return
    if free < _LITTLE_BYTES:
        yield warning(
            "disk", f"only {free / 1e6:,.0f} MB are left on the disk of {home}", _WHY, "make room"
        )
        return
    yield good("disk", f"{free / 1e9:,.0f} GB are left on the disk of {home}")
