"""Figures in documents are those of result files, or there are none.

README, changelog and help name no measured figure: results have a page of their own, generated
from their files. The comparison and the guide to alignment name some, which are compared with these
files here; any other page that names one names the benchmark or test that measures it.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedforest.cli.main import app
from tests.cli.test_help import list_commands
from tests.docs.documents import DOCS, ROOT

RESULTS = ROOT / "benchmarks" / "results"
SOURCE = re.compile(r"(?:benchmarks|tests|results)/[\w/-]+\.(?:py|md|json)")
COMPUTED = ("level-by-level.md", "scaling.md")  # by arithmetic that stands there, or when built
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if not {"results", "decisions"} & set(page.parts) and page.name not in COMPUTED
]
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


@pytest.mark.structure
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_that_names_a_measured_figure_names_what_measures_it(page: Path) -> None:
    text = page.read_text()
    sources = [DOCS / name for name in SOURCE.findall(text) if (DOCS / name).is_file()]
    sources += [ROOT / name for name in SOURCE.findall(text) if (ROOT / name).is_file()]
    assert sources or MEASURED.findall(text) == []


def test_the_times_and_sizes_of_an_alignment_are_those_of_the_result_file() -> None:
    tasks = {
        (each["ids"], each["kind"]): each
        for each in json.loads((RESULTS / "alignment.json").read_text())["tasks"]
    }
    few, many = (tasks[n, "psi"]["processor_seconds"] for n in (100_000, 1_000_000))
    more = {
        role: (peak - tasks[1_000_000, "psi"]["bytes_before"][role]) / 1e7
        for role, peak in tasks[1_000_000, "psi"]["peak_bytes"].items()
    }
    shorter, longer = (
        tasks[n, "extension by 1 %"]["processor_seconds"] for n in (100_000, 1_000_000)
    )
    page = " ".join((DOCS / "how-to" / "alignment.md").read_text().split())
    assert f"take {few:.0f} s of processor time for 100,000 ids and {many:.0f} s for a mil" in page
    assert f"then holds {more['bank']:.0f}0 MB more" in page
    assert f"the coordinator {more['coordinator']:.0f}0 MB" in page
    assert f"takes {shorter:.1g} s and {longer:.1f} s" in page
