"""The demo as a newcomer runs it: one command, a whole federation, and nothing left afterwards."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from fedforest.cli import demo
from fedforest.cli.demonstration.letters import OFFICES
from fedforest.cli.main import app

FORESTS = (*(f"{office} alone" for office in OFFICES), "federated", "pooled")
DEADLINE_SECONDS = 600.0  # also where others use the machine; alone it takes some twenty


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{listen}; import runpy; runpy.run_module('fedforest', run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", script, "demo", "--plot", str(folder / "demo.png"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"},
    )


def left_over(folder: Path) -> list[str]:
    """Folders of the demo, and processes that were started with one of them."""
    folders = [path.name for path in folder.glob("fedforest-demo-*")]
    running = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended
        if f"{folder}{os.sep}fedforest-demo-" in command:
            running.append(command)
    return folders + running


def read_accuracies(page: str) -> dict[str, str]:
    """Accuracies by forest, to the digit, in a part of the demo's table."""
    rows = [row.split("│") for row in page.splitlines() if row.count("│") == 6]
    return {row[1].strip(): row[2].strip() for row in rows if "." in row[2]}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_the_demo_goes_from_nothing_to_models_and_leaves_nothing(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, err
    strips, scans = (read_accuracies(part) for part in out.split("letters of their own", 1))
    assert strips.keys() == scans.keys() == set(FORESTS)
    assert strips["federated"] == strips["pooled"]  # the same forest, scored on the same letters
    assert float(strips["federated"]) > max(float(strips[f"{office} alone"]) for office in OFFICES)
    assert "What helps" in out
    assert "letters that came later" in out
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert left_over(tmp_path) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_leaves_nothing(tmp_path: Path, number: int) -> None:
    with start(tmp_path) as process:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not any(tmp_path.glob("fedforest-demo-*/coordinator/log.txt")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert left_over(tmp_path) == []
    assert tempfile.gettempdir() != str(tmp_path)  # the demo's folder was its own


@pytest.mark.exhaustive
def test_a_demo_that_is_kept_answers_commands_until_ctrl_c_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    with start(tmp_path, "--keep") as process:
        assert process.stdout is not None
        tried = []
        for line in process.stdout:  # ends where the demo does
            tried.append(line.strip())
            if "party data list" in line:
                break
        profile = next(line for line in tried if line.startswith("export ")).partition("=")[2]
        env = {**os.environ, "FEDFOREST_PROFILE": profile}
        commands = [shlex.split(line)[1:] for line in tried if line.startswith("fedforest ")]
        assert len(commands) == 6
        told = {}
        for command in commands:
            outcome = subprocess.run(
                [sys.executable, "-m", "fedforest", *command],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                timeout=DEADLINE_SECONDS,
                check=False,
            )
            assert outcome.returncode == 0, (command, outcome.stderr)
            told[command[0], command[1]] = outcome.stdout
        assert "strips" in told["runs", "list"]
        assert "amsterdam" in told["coordinator", "parties"]
        assert (tmp_path / "scans.onnx").stat().st_size > 1_000
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert left_over(tmp_path) == []


def test_every_command_that_a_kept_demo_tells_to_try_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    for name in ("coordinator", "amsterdam"):
        (tmp_path / name).mkdir()
    with pytest.raises(KeyboardInterrupt):
        demo._keep_up(tmp_path / "profile", tmp_path)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("fedforest ")]
    assert len(commands) == 6
    for words in commands:
        command: Any = typer.main.get_command(app)
        arguments = list(words)
        while hasattr(command, "commands"):  # as long as a word names a group of commands
            command = command.commands[arguments.pop(0)]
        command.make_context(command.name, arguments)  # raises for what is unknown
