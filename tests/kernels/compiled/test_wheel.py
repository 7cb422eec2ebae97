"""From a wheel with compiled kernels, README's snippets compile nothing."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fedforest.kernels.compiled.cache import PORTABLE, host_target
from fedforest.kernels.compiled.signatures import listed_calls
from tests.wheels import ROOT, build_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("NUMBA_DISABLE_JIT") == "1" or not host_target().runs_code_for(PORTABLE),
        reason="no kernels are shipped for this process",
    ),
]

COUNT = """
from numba.core import event
class Count(event.Listener):
    compiled = []
    def on_start(self, started):
        self.compiled.append(started.data["dispatcher"].__name__)
    def on_end(self, _):
        pass
event.register("numba:compile", Count())
"""
SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content: installing it puts these files, and no others, on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name.endswith(f"-{version}-{version}-linux_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_it_holds_every_listed_call_and_no_path_of_this_machine(installed: Path) -> None:
    shipped = list((installed / "fedforest/kernels/compiled/shipped").iterdir())
    assert len(shipped) == len(listed_calls())
    assert all(str(ROOT).encode() not in path.read_bytes() for path in shipped)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_of_the_readme_compiles_nothing(
    installed: Path, tmp_path: Path, snippet: str
) -> None:
    script = COUNT + snippet + "\nimport fedforest\nprint(fedforest.__file__, Count.compiled)"
    paths = os.pathsep.join([str(installed), *sys.path])
    outcome = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths, "FEDFOREST_CACHE": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert outcome.stdout.splitlines()[-1] == f"{installed}/fedforest/__init__.py []"
    assert outcome.stderr == ""
    assert not (tmp_path / "cache").exists()
