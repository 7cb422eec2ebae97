"""Puts compiled kernels into a wheel, if `make wheel` has compiled some (docs/decisions/0019).

`FEDFOREST_KERNELS` names the folder they lie in. Without it, as in `pip install .`, the wheel is
pure Python and kernels are compiled when they are needed.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):  # type: ignore[misc] # hatchling is there at builds only
    """Adds the files, and names the Python and the platform that they are for."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        folder = os.environ.get("FEDFOREST_KERNELS")
        if folder:
            shipped = "fedforest/kernels/compiled/shipped"
            for path in Path(folder).iterdir():
                build_data["force_include"][str(path)] = f"{shipped}/{path.name}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
