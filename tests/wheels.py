"""A wheel with compiled kernels, as `make wheel` builds it, for tests that install one."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build_wheel(folder: Path) -> Path:
    """Build the wheel into a folder; kernels come from the user's cache if they are there."""
    kernels = folder / "kernels"
    ship = [sys.executable, "-m", "fedforest.kernels.compiled.shipping", str(kernels)]
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    environment = {
        **os.environ,
        "FEDFOREST_KERNELS": str(kernels),
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    for command in (ship, build):
        subprocess.run(command, check=True, timeout=900, env=environment)
    (wheel,) = folder.glob("fedforest-*.whl")
    return wheel
