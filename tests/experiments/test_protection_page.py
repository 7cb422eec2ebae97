"""The guide to protections quotes the committed result: every row of it, digit by digit."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "docs" / "results" / "epsilon-curve.json"
PAGE = ROOT / "docs" / "how-to" / "which-protection.md"


def quoted(title: str, columns: dict[str, str]) -> list[str]:
    """Markdown rows of a committed table, with these columns under these names."""
    tables = json.loads(RESULT.read_text())["tables"]
    table = next(each for each in tables if each["title"].startswith(title))
    places = [table["header"].index(name) for name in columns]
    rows = [[row[place] for place in places] for row in table["rows"]]
    head = [list(columns.values()), ["---"] * len(columns)]
    return [f"| {' | '.join(row)} |" for row in (*head, *rows)]


CURVE = {"data set": "data", "method": "method", "ε in all": "ε in all", "AUC": "AUC"}
PRICES = {
    "protection": "protection",
    "AUC": "AUC",
    "processor time": "processor time",
    "sent": "sent",
}


@pytest.mark.parametrize(
    ("title", "columns"), [("AUC and accuracy", CURVE), ("Prices", PRICES)], ids=["curve", "prices"]
)
def test_the_page_quotes_the_committed_result(title: str, columns: dict[str, str]) -> None:
    page = PAGE.read_text().splitlines()
    assert [row for row in quoted(title, columns) if row not in page] == []


OPEN_QUESTIONS = ROOT / "docs" / "explanation" / "what-the-papers-leave-open.md"
NAMED_TEST = re.compile(r"`(tests/[\w/.]+\.py)`: ((?:`test_\w+`(?:, )?)+)")


def test_every_test_that_the_page_of_open_questions_names_exists() -> None:
    named = NAMED_TEST.findall(OPEN_QUESTIONS.read_text())
    assert len(named) >= 6
    for path, tests in named:
        text = (ROOT / path).read_text()
        for test in re.findall(r"`(test_\w+)`", tests):
            assert f"def {test}(" in text, (path, test)
