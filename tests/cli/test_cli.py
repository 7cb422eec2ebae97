import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import fedforest
from fedforest.cli.main import app, app_entry

QUICK_DEMO = ["demo", "--in-process", "--rows", "400", "--trees", "5"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def run_as_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedforest", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_lists_the_commands() -> None:
    outcome = run("--help")
    assert outcome.exit_code == 0
    assert "demo" in outcome.output


def test_no_arguments_show_the_help() -> None:
    assert "Usage: fedforest" in " ".join(run().output.split())


def test_version_prints_name_and_version() -> None:
    outcome = run("--version")
    assert (outcome.exit_code, outcome.output) == (0, f"fedforest {fedforest.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["demo", "--rows", "99"], ["demo", "--rows", "many"], ["demo", "--seed", "-1"], ["dmeo"]],
)
def test_a_mistyped_command_line_is_a_usage_error(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_the_demo_compares_alone_federated_and_joined_and_says_who_learned_what() -> None:
    outcome = run(*QUICK_DEMO)
    assert outcome.exit_code == 0, outcome.output
    words = " ".join(outcome.output.split())
    for expected in ("bank alone", "insurer alone", "shop alone", "federated", "joined table"):
        assert expected in words
    assert "bit for bit the same" in words
    for expected in ("Who learned what", "Risk", "Who could", "What helps", "min_samples_leaf"):
        assert expected in words


def test_the_demo_in_one_process_draws_the_picture_it_is_asked_for_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "asked.png"
    outcome = run(*QUICK_DEMO, "--plot", str(picture))
    assert outcome.exit_code == 0, outcome.output
    assert "The picture is" in outcome.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "The picture" not in run(*QUICK_DEMO).output
    assert list(tmp_path.iterdir()) == [picture]


def test_the_demo_says_which_bytes_it_counts() -> None:
    words = " ".join(run(*QUICK_DEMO).output.split())
    assert "to and from parties" in words
    assert "Bytes from parties" in words


def test_the_demo_repeats_its_accuracies_from_the_same_seed() -> None:
    def accuracies(seed: str) -> list[str]:
        words = run(*QUICK_DEMO, "--seed", seed).output.split()
        return [word for word in words if word.startswith("0.") and len(word) == 6]

    assert len(accuracies("3")) == 5
    assert accuracies("3") == accuracies("3")
    assert accuracies("3") != accuracies("4")


def test_an_error_raised_on_purpose_is_one_line_on_stderr_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fedforest", "demo", "--in-process", "--rows", "100", "--trees", "0"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        app_entry()
    lines = capsys.readouterr().err.splitlines()
    assert stop.value.code == 1
    assert len(lines) == 1
    assert lines[0].startswith("fedforest: ")
    assert "n_estimators" in lines[0]


def test_the_module_runs_as_a_process() -> None:
    outcome = run_as_process("--version")
    assert (outcome.returncode, outcome.stdout) == (0, f"fedforest {fedforest.__version__}\n")


def test_the_module_fails_as_a_process_without_a_traceback() -> None:
    outcome = run_as_process("demo", "--in-process", "--rows", "100", "--trees", "0")
    assert outcome.returncode == 1
    assert outcome.stderr.count("\n") == 1
    assert "Traceback" not in outcome.stderr


def test_ctrl_c_during_training_exits_with_130_and_no_traceback() -> None:
    # a shell starts background jobs deaf to Ctrl-C, and their children inherit that
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{listen}; import runpy; runpy.run_module('fedforest', run_name='__main__')"
    arguments = ["demo", "--in-process", "--rows", "20000", "--trees", "3000"]
    with subprocess.Popen(
        [sys.executable, "-c", start, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "three parties" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complaint
