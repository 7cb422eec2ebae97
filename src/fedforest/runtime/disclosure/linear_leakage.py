"""The leakage report of a linear model: in plain words, who learned what."""

import math
from collections.abc import Iterator, Mapping

from fedforest.privacy.spent import SpentPrivacy, summarise
from fedforest.runtime.disclosure.leakage import (
    CAVEATS,
    COORDINATOR,
    NOBODY,
    Graded,
    LeakageReport,
    Learned,
)

_EVERY_HOLDER = "Every party with columns"


def report_linear_training(
    columns_per_party: Mapping[str, int], label_party: str, n_steps: int, *, is_regression: bool
) -> LeakageReport:
    """Report what each role learned while a linear model was trained."""
    known = "the target of every row" if is_regression else "the class of every row"
    how = "the first residuals" if is_regression else "the signs of residuals"
    constant = ", up to a constant" if is_regression else ""
    said = [
        (COORDINATOR, f"{known}, from {how}"),
        (COORDINATOR, f"every party's part of every row's score, {n_steps} time(s)"),
        (
            COORDINATOR,
            "lengths of each party's coefficient vectors and angles between them, no coefficient",
        ),
        (COORDINATOR, "each party's numbers of rows and columns; the intercept"),
        *((COORDINATOR, exposed) for exposed in _exposed_columns(columns_per_party, n_steps)),
        (_EVERY_HOLDER, f"{known}{constant}, from {how}"),
        (
            _EVERY_HOLDER,
            "how sharply the loss bends at every row, and weights of rows if there are any",
        ),
        *_at_label_party(label_party, is_regression=is_regression),
        (NOBODY, "columns' names, means, scales, categories and coefficients: they never left"),
        (
            CAVEATS,
            "this is a baseline without label protection; use it where labels may be known to all",
        ),
    ]
    grades = (
        Graded("labels", "exposed", f"{how} tell them"),
        Graded("values of columns", "sums", "each party's part of every row's score"),
    )
    return LeakageReport(tuple(Learned(who, what) for who, what in said), grades)


def describe_linear_spending(*, is_regression: bool) -> SpentPrivacy:
    """Return the spending of a run without noise, in the words of the forests' reports."""
    labels = "targets" if is_regression else "classes"
    return SpentPrivacy.of(
        {
            "summary": summarise(
                math.inf,
                "this training",
                against="",
                uncovered="",
                exposed=f"residuals tell the {labels}; see `leakage_`",
            ),
            "label_epsilon": math.inf,
            "protected": f"nothing: residuals tell the {labels} (epsilon is infinite)",
            "not_protected": (
                "labels: see `leakage_` for who learned them in which form",
                "columns: every party's part of every row's score is told to the coordinator",
                "the numbers of rows and columns",
            ),
        }
    )


def _at_label_party(label_party: str, *, is_regression: bool) -> Iterator[tuple[str, str]]:
    if not is_regression:  # otherwise it measures once, at scores of zero
        yield f"The label party, {label_party!r}", "the total score of every row at every step"


def _exposed_columns(columns_per_party: Mapping[str, int], n_steps: int) -> Iterator[str]:
    """Scores are combinations of columns: as many of them as columns tell what these span."""
    for party, n_columns in columns_per_party.items():
        if n_columns == 1:
            yield f"the one column of {party!r}, but for its unit and origin"
        elif 1 < n_columns <= n_steps:
            yield f"the space that the {n_columns} columns of {party!r} span"
