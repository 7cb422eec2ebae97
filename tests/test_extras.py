"""Libraries of extras are named with the extra that brings them."""

import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.extras import PACKAGE_OF_LIBRARY, explain_missing_extras, import_extra

PYPROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())


def test_every_library_is_brought_by_the_extra_that_it_is_listed_under() -> None:
    for library, package in PACKAGE_OF_LIBRARY.items():
        extra = package.removeprefix("fedforest[").removesuffix("]")
        if library in (package, "adbc_driver_manager"):  # no extra; brought by another driver
            continue
        brought = {
            requirement.partition(">")[0]
            for requirement in PYPROJECT["project"]["optional-dependencies"][extra]
        }
        if library == "mlflow":  # no part of `dev`
            assert brought == {"mlflow-skinny"}
            continue
        assert brought & set(packages_distributions()[library]), library


def test_a_missing_extra_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGE_OF_LIBRARY, "no_such_library", "fedforest[federation]")
    with pytest.raises(
        ConfigurationError,
        match=r'^this format needs no_such_library, .*: pip install "fedforest\[federation\]"$',
    ):
        import_extra("no_such_library.part", "this format")


def test_other_missing_modules_stay_bugs() -> None:
    with pytest.raises(ModuleNotFoundError), explain_missing_extras("this command"):
        raise ModuleNotFoundError("No module named 'else'", name="else")
