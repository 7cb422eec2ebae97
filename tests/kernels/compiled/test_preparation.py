"""Kernels are compiled before they are called, by children, and the user hears how far it is."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from numba.core import event

from fedforest.kernels.compiled import preparation
from fedforest.kernels.compiled.cache import forget_unused
from fedforest.kernels.compiled.preparation import compile_calls, find_missing, prepare
from fedforest.kernels.compiled.progress import Countdown, telling
from fedforest.kernels.compiled.signatures import Call, describe_arguments, listed_calls
from tests.trainings import KINDS

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)


class _Compilations(event.Listener):
    def __init__(self) -> None:
        self.kernels: list[str] = []

    def on_start(self, started: Any) -> None:
        self.kernels.append(started.data["dispatcher"].__name__)

    def on_end(self, _: Any) -> None:
        """Others may follow."""


@contextmanager
def noting_compilations() -> Iterator[list[str]]:
    compilations = _Compilations()
    with event.install_listener("numba:compile", compilations):
        yield compilations.kernels


def cheapest_calls(n_calls: int = 3) -> dict[int, Call]:
    calls = listed_calls()
    return {number: calls[number] for number in range(len(calls) - n_calls, len(calls))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDFOREST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(preparation, "_prepared", set())
    return tmp_path / "cache"


def test_the_list_fits_the_code() -> None:
    assert len(listed_calls()) > 150
    for call in listed_calls():
        kernel = call.find_kernel()
        assert kernel is not None, f"{call.module}.{call.kernel}: make signatures"
        n_arguments = len(signature(getattr(kernel, "py_func", kernel)).parameters)
        assert len(call.types()) == n_arguments, f"{call.module}.{call.kernel}: make signatures"
        assert describe_arguments(call.types()) == call.arguments
        assert set(call.kinds) <= set(KINDS)


def test_children_compile_and_the_line_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = cheapest_calls()
    assert set(calls) <= set(find_missing())
    files = compile_calls(calls)
    assert set(files) <= {path.name for path in folder.iterdir()}
    assert not set(calls) & set(find_missing())
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "fedforest: compiling kernels, once: 0 of 3"
    assert last.startswith("fedforest: compiling kernels, once: 3 of 3 in ")


def test_without_children_this_process_compiles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    calls = cheapest_calls(1)
    assert all((folder / file).exists() for file in compile_calls(calls))


def test_children_that_end_early_leave_the_rest_to_the_first_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert compile_calls(cheapest_calls()) == []
    assert "0 of 3 in" in capsys.readouterr().err
    assert not folder.exists()


def test_a_call_that_the_code_no_longer_takes_is_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (number, call), *_ = cheapest_calls(1).items()
    calls = {number: call._replace(arguments="[]"), number + 1: call}
    monkeypatch.setattr(preparation, "_run_children", lambda *_: None)
    assert compile_calls(calls) == [path.name for path in folder.glob(f"{call.kernel}-*")]


def test_what_is_missing_is_prepared_once_per_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = cheapest_calls()
    monkeypatch.setattr(preparation, "listed_calls", lambda: tuple(calls.values()))
    monkeypatch.setattr(preparation, "_run_children", lambda *_: None)
    told: list[str] = []
    with telling(told.append):
        assert prepare("no such kind") == 0
        assert prepare() == 3
        assert prepare() == 0
    assert told[0] == "compiling kernels, once: 0 of 3"  # on a slow machine more lines follow
    assert [line for line in told if "3 of 3" in line] == told[-1:]
    assert folder.exists()


def test_little_work_of_a_kind_is_left_to_the_first_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = next(iter(cheapest_calls(1).values()))
    monkeypatch.setattr(preparation, "listed_calls", lambda: (call,))
    assert prepare(call.kinds[0]) == 0
    assert list(folder.iterdir()) == []


def test_a_terminal_sees_one_line_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    countdown = Countdown("compiling", {0: 2.0, 1: 1.0})
    countdown.finish(0)
    countdown.end()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "1 of 2, about 0 s left" in shown
    assert "1 of 2 in 0 s" in shown.split("\r")[-1]


def test_files_that_no_process_used_for_a_month_are_deleted(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text("code")
    os.utime(tmp_path / "old", (0, 0))
    forget_unused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of forests too small to judge
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_warm_up_no_training_compiles(kind: str) -> None:
    prepare()
    with noting_compilations() as compiled:
        KINDS[kind]()
    assert compiled == [], "make signatures"
