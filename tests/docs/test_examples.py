"""Examples run: those of public names in their documentation, and the scripts in examples/."""

import doctest
import runpy
from pathlib import Path

import pytest

import fedforest
from docs.book.api import public_classes
from tests.docs.documents import ROOT

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
MOST_LINES = 80


@pytest.mark.parametrize("name", public_classes())
def test_a_public_name_has_examples_that_run(name: str) -> None:
    kind = public_classes()[name]
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(kind, f"fedforest.{name}", globs={})
    assert example.examples, f"{name} has no example"
    assert doctest.DocTestRunner().run(example).failed == 0


def test_an_example_of_a_public_name_imports_it_as_users_do() -> None:
    for name, kind in public_classes().items():
        assert f"from fedforest import {name}" in kind.__doc__ or (
            f", {name}" in kind.__doc__.partition("from fedforest import")[2].partition("\n")[0]
        ), name


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_and_prints(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 4


def test_there_are_six_scripts_and_all_are_short() -> None:
    assert len(SCRIPTS) == 6
    for script in SCRIPTS:
        assert len(script.read_text().splitlines()) < MOST_LINES


def test_the_version_is_public() -> None:
    assert set(public_classes()) | {"__version__"} == set(fedforest.__all__)
