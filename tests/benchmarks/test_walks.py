"""What the count of functions and files on a walk takes in, and what it leaves out."""

import json
from pathlib import Path

import pytest

from benchmarks.tasks import make_split
from benchmarks.walk_recorder import SEES_KERNELS
from benchmarks.walks import RECORDED, WALKS, count, list_passed, main

needs_kernels_seen = pytest.mark.skipif(
    not SEES_KERNELS, reason="numba tells profilers of its dispatch on Python 3.11 only"
)


@needs_kernels_seen
@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("vertical level", {"protocol", "kernels", "transport", "runtime"}),
        ("horizontal level", {"protocol", "kernels", "masking", "transport", "runtime"}),
        ("masked count", {"protocol", "kernels", "masking", "transport", "runtime"}),
        ("vertical prediction", {"estimators", "protocol", "kernels", "transport", "runtime"}),
    ],
)
def test_a_walk_passes_its_layers_and_is_the_same_every_time(name: str, passed: set[str]) -> None:
    split = make_split("binary", 500)
    (walk,), (again,) = (WALKS[name](split).values() for _ in range(2))
    assert [call[1:] for call in walk] == [call[1:] for call in again]
    figures = count(walk)
    assert passed <= figures["functions_by_layer"].keys()
    assert figures["files"] < figures["functions"] < figures["calls"]
    assert len(list(list_passed(walk))) == figures["functions"]
    assert not any("<listcomp>" in call.function for call in walk)


@needs_kernels_seen
def test_figures_are_kept_beside_those_of_other_commits(tmp_path: Path) -> None:
    path = tmp_path / "walks.json"
    for key in ("before", "after"):
        main(["--only", "vertical level", "--write", str(path), "--as", key])
    kept = json.loads(path.read_text())
    assert kept["before"] == kept["after"]


def test_all_walks_are_recorded() -> None:
    kept = json.loads(RECORDED.read_text())["before"]["walks"]
    assert {title.split(":")[0] for title in kept} == set(WALKS)
