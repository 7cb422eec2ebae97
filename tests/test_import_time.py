"""Nothing heavy is imported before it is needed, seen from outside in fresh processes."""

import json
import subprocess
import sys

import pytest
from typer.main import get_command

from fedforest.cli.main import app

HEAVY = {
    "cryptography",
    "fastapi",
    "grpc",
    "llvmlite",
    "numba",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "starlette",
}
COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined] # the root is a group


def modules_after(script: str, *arguments: str) -> set[str]:
    """Names of the top-level packages a fresh interpreter has loaded after running the script."""
    report = "\nimport json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"
    outcome = subprocess.run(
        [sys.executable, "-c", script + report, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    names: list[str] = json.loads(outcome.stdout.splitlines()[-1])
    return {name.partition(".")[0] for name in names}


RUN_COMMAND_LINE = """
import sys
from fedforest.cli.main import app_entry
try:
    app_entry()
except SystemExit as stop:
    assert stop.code == 0, stop.code
"""


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = modules_after("import fedforest")
    assert "fedforest" in loaded
    assert loaded & HEAVY == set()


def test_touching_the_root_error_loads_nothing_heavy() -> None:
    assert modules_after("from fedforest import FederationError") & HEAVY == set()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *[[c, "--help"] for c in COMMANDS]]
)
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(RUN_COMMAND_LINE, *arguments)
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_this_way_of_looking_would_notice_a_heavy_import() -> None:
    assert modules_after("import sklearn") & HEAVY >= {"sklearn", "numpy"}
