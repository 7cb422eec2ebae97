"""What people and programs read about a run."""

import json

import msgspec
import pytest

from fedforest.cli.run_page import show_details, show_end, show_leakage
from fedforest.cli.terminal import Terminal
from fedforest.reports.leakage_text import explain, summarise
from fedforest.runtime.messages.results import (
    Alignment,
    RunDetails,
    RunState,
    Scores,
    ValidationReport,
)

LEAKAGE = {
    "protocol": "vertical",
    "figures": {
        "rows": 10,
        "smallest_leaf_allowed": 5,
        "smallest_side_told": 1,
        "smallest_group_of_rows": 7,
        "label_epsilon_spent": 2.0,
    },
    "learned": [
        {
            "who": "the coordinator",
            "from": "bank",
            "message": "SplitsFound",
            "reveals": "gains",
            "count": 3,
            "bytes": 1_500,
        },
        {
            "who": "the user",
            "from": "the coordinator",
            "message": "VerticalResult",
            "reveals": "importances",
            "count": 1,
            "bytes": 0,
        },
    ],
    "follows": [{"who": "Every party", "what": "which rows share a class"}],
    "attacks": [
        {
            "name": "grouping rows",
            "risk": "people who are alike",
            "who": "every party",
            "how": "by x",
            "against": "noise",
        }
    ],
}


@pytest.fixture
def details() -> RunDetails:
    good = Scores(
        n_rows=400, values={"accuracy": 0.9, "log_loss": 0.2}, confusion=[[9, 1], [0, 10]]
    )
    poor = Scores(n_rows=400, values={"accuracy": 0.7})
    return RunDetails(
        state=RunState(
            *("ab" * 16, "finished", "", "churn", "f/user/ann", "vertical", 10.0, 75.0, 3, 2_000)
        ),
        order={
            "data": {"bank": "customers", "shop": "baskets"},
            "label": "left",
            "label_party": "bank",
            "parameters": {"task": "classification", "n_estimators": 20},
        },
        started=15.0,
        bytes_to={"bank": 500, "shop": 100},
        bytes_from={"bank": 1_000, "shop": 400},
        model="ab" * 16,
        n_rows=1_600,
        alignment=Alignment(
            n_common=2_000, n_rows={"bank": 2_500, "shop": 2_100}, n_duplicates={"bank": 4}
        ),
        classes=["left", "stays"],
        validation=ValidationReport(federated=good, alone={"bank": poor}),
        leakage=LEAKAGE,
    )


def test_the_page_has_scores_beside_alone_rows_cost_and_model(
    details: RunDetails, capsys: pytest.CaptureFixture[str]
) -> None:
    show_details(Terminal(), details)
    page = " ".join(capsys.readouterr().out.split())
    for expected in (
        "20 trees over bank (customers), shop (baskets); label 'left' of bank",
        "60 s after it began",
        "3, 2.0 kB in all",
        "2,000 that all parties have, of bank 2,500, shop 2,100",
        "ids that stand twice are left out: bank 4",
        "federated │ 400 │ 0.9000 │ 0.2000",
        "bank alone │ 400 │ 0.7000 │ -",
        "true class ┃ predicted left ┃ predicted stays",
        "left │ 9 │ 1",
        "stays │ 0 │ 10",
        "smallest leaf allowed: 5 rows; sides of cuts told of may hold a single row",
        "the smallest child of a split had 7",
        "epsilon spent on labels 2",
    ):
        assert expected in page


def test_a_class_that_training_did_not_see_and_odd_names_have_their_place_in_the_table(
    details: RunDetails, capsys: pytest.CaptureFixture[str]
) -> None:
    assert details.validation is not None
    scores = Scores(n_rows=3, values={}, confusion=[[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    report = msgspec.structs.replace(details.validation, federated=scores)
    odd = msgspec.structs.replace(details, validation=report, classes=["[red]", 1.5])
    show_details(Terminal(), odd)
    page = " ".join(capsys.readouterr().out.split())
    for row in ("[red] │ 1 │ 0 │ 0", "1.5 │ 0 │ 1 │ 0", "(not in training) │ 1 │ 0 │ 0"):
        assert row in page


def test_json_has_the_names_of_all_fields_and_says_that_it_is_the_end(
    details: RunDetails, capsys: pytest.CaptureFixture[str]
) -> None:
    show_end(Terminal(as_json=True), details)
    page = json.loads(capsys.readouterr().out)
    assert page["event"] == "ended"
    assert page["name"] == "churn"
    assert page["validation"]["alone"]["bank"]["values"] == {"accuracy": 0.7}
    assert page["alignment"]["n_common"] == 2_000
    assert page["classes"] == ["left", "stays"]
    assert page["leakage"] == LEAKAGE


def test_a_run_that_only_aligned_is_shown_without_trees(
    details: RunDetails, capsys: pytest.CaptureFixture[str]
) -> None:
    aligned = RunDetails(
        state=details.state, order={"data": {"bank": "customers"}}, alignment=details.alignment
    )
    show_details(Terminal(), aligned)
    assert "of bank (customers)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("is_regression", "task"), [(True, "regression"), (False, "classification")]
)
def test_a_linear_model_is_shown_without_trees_and_with_where_it_is(
    details: RunDetails, capsys: pytest.CaptureFixture[str], task: str, *, is_regression: bool
) -> None:
    order = {
        "data": {"bank": "customers", "shop": "baskets"},
        "label": "left",
        "label_party": "bank",
        "is_regression": is_regression,
    }
    state = msgspec.structs.replace(details.state, protocol="linear")
    trained = RunDetails(state=state, order=order, model="ab" * 16, n_rows=1_600)
    show_details(Terminal(), trained)
    page = " ".join(capsys.readouterr().out.split())
    assert f"linear {task} over bank (customers), shop (baskets); label 'left' of bank" in page
    assert "each party holds its own coefficients, the coordinator the intercept" in page
    assert "1,600" in page


def test_leakage_is_told_in_short_and_in_full() -> None:
    short, full = "\n".join(summarise(LEAKAGE)), "\n".join(explain(LEAKAGE))
    assert "the coordinator received 3 messages, 1.5 kB" in short
    assert "the user" not in short
    assert "SplitsFound from bank x 3, 1.5 kB: gains" in full
    assert "Every party:\n  - which rows share a class" in full
    assert "by x" in full


def test_risks_are_a_table_of_what_could_be_worked_out_by_whom_and_what_helps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_leakage(Terminal(), LEAKAGE, in_full=False)
    told = capsys.readouterr().out
    (row,) = [line for line in told.splitlines() if "people who are alike" in line]
    assert [cell.strip() for cell in row.split("│")[1:4]] == [
        "people who are alike",
        "every party",
        "noise",
    ]


def test_a_run_that_no_attack_is_known_on_shows_no_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_leakage(Terminal(), {**LEAKAGE, "attacks": []}, in_full=False)
    assert "What helps" not in capsys.readouterr().out
