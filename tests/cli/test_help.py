"""Help is there for every command, with an example, and quickly."""

import os
import resource
import subprocess
import sys

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from fedforest.cli.main import app

MOST_CPU_SECONDS = 0.4
GROUP = get_command(app)


def list_commands() -> list[list[str]]:
    """Every command that does something, by its words."""
    found: list[list[str]] = []

    def visit(command: object, words: list[str]) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found.append(words)
            return
        for name, child in inner.items():
            visit(child, [*words, name])

    visit(GROUP, [])
    return found


@pytest.mark.parametrize("words", list_commands(), ids=" ".join)
def test_every_command_has_help_with_an_example_of_itself(words: list[str]) -> None:
    outcome = CliRunner().invoke(app, [*words, "--help"])
    assert outcome.exit_code == 0
    assert f"Example: fedforest {' '.join(words)}" in " ".join(outcome.output.split())


def cpu_seconds_of_help() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "fedforest", "--help"],
        stdout=subprocess.DEVNULL,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_takes_little_time() -> None:
    cpu_seconds_of_help()  # the first one may compile modules
    assert min(cpu_seconds_of_help() for _ in range(5)) < MOST_CPU_SECONDS


def test_the_root_is_a_group_of_commands() -> None:
    assert isinstance(app, typer.Typer)
    assert ["train"] in list_commands()
    assert ["runs", "cancel"] in list_commands()
