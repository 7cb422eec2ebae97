"""Figures in documents are those of result files, or there are none.

README, changelog and help name no measured figure: results have a page of their own, generated
from their files. The comparison names some, which are compared with these files here.
"""

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from tests.cli.test_help import list_commands
from tests.docs.documents import DOCS, ROOT

RESULTS = ROOT / "benchmarks" / "results"
MEASURED = re.compile(
    r"\b(\d[\d.,]* ?(?:ms|µs|CPU seconds|times (?:as|faster|slower)\b)|\d[\d.]*(?:×| ?%)"
    r"|(?:takes?|in|about|some|under) \d[\d.]* (?:s|seconds|minutes)\b)"
)


@pytest.mark.structure
@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_a_document_without_results_names_no_measured_figure(name: str) -> None:
    assert MEASURED.findall((ROOT / name).read_text()) == []


@pytest.mark.parametrize("words", list_commands(), ids=" ".join)
def test_help_names_no_measured_figure(words: list[str]) -> None:
    assert MEASURED.findall(CliRunner().invoke(app, [*words, "--help"]).output) == []


@pytest.mark.parametrize(
    "claim",
    [
        "is 12.5× faster",
        "0.4 ms a row",
        "takes 15 seconds",
        "in 3 minutes",
        "5 times as fast",
        "9%",
    ],
)
def test_a_measured_figure_is_found(claim: str) -> None:
    assert MEASURED.search(claim)


def best_seconds(fits: dict[str, Any]) -> str:
    return f"{min(fits['wall']):.2g}"


def test_the_speed_of_fedforest_in_the_comparison_is_that_of_the_result_files() -> None:
    vertical, horizontal, live = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("vertical", "horizontal", "federation")
    )
    expected = {
        "columns, one process": best_seconds(vertical["xgboost"]["ours"]),
        "rows, masked, one process": best_seconds(
            horizontal["protected"][0]["fits"]["fedforest, masked"]
        ),
        "columns, three processes, TLS, journals": best_seconds(live["speed"][0]["ours"]),
    }
    page = (DOCS / "comparison.md").read_text()
    told = re.findall(
        r"^\| \*\*fedforest\*\*, (.+?) \| 20 trees \| – \| (\S+) \|$", page, re.MULTILINE
    )
    assert dict(told) == expected
