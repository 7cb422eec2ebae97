"""Shell completion: the scripts of every shell, and what a real bash completes with one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 120.0


def fedforest(**environment: str) -> str:
    """What the command prints where a shell, or its completion, asks it by the environment."""
    outcome = subprocess.run(
        [sys.executable, "-c", "from fedforest.cli.main import app_entry; app_entry()"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert outcome.stderr == ""
    return outcome.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_every_shell(shell: str) -> None:
    script = fedforest(_FEDFOREST_COMPLETE=f"source_{shell}")
    assert f"_FEDFOREST_COMPLETE=complete_{shell}" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no `bash` here")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("fedforest coordinator in", ["init", "invite"]),
        ("fedforest party data era", ["erase"]),
        ("fedforest doctor --pro", ["--profile"]),
    ],
)
def test_bash_completes_commands_and_options(line: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(fedforest(_FEDFOREST_COMPLETE="source_bash"))
    program = tmp_path / "fedforest"
    command = "from fedforest.cli.main import app_entry; app_entry()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{command}" "$@"\n')
    program.chmod(0o755)
    words = line.split()
    ask = (
        f". {tmp_path / 'completion'}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        f'_fedforest_completion {program}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    told = subprocess.run(
        ["bash", "--norc", "-c", ask], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert told.stdout.split() == found
