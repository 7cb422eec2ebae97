"""The leakage report of a linear model: in plain words, who learned what."""

from collections.abc import Mapping


def report_linear_training(
    columns_per_party: Mapping[str, int], label_party: str, n_steps: int, *, is_regression: bool
) -> str:
    """Who learned what while a linear model was trained."""
    known = "the target of every row" if is_regression else "the class of every row"
    how = "the first residuals" if is_regression else "the signs of residuals"
    constant = ", up to a constant" if is_regression else ""
    lines = [
        "The coordinator:",
        f"  - {known}, from {how}",
        f"  - every party's part of every row's score, {n_steps} time(s)",
        "  - lengths of each party's coefficient vectors and angles between them, no coefficient",
        "  - each party's numbers of rows and columns; the intercept",
        *_exposed_columns(columns_per_party, n_steps),
        "Every party with columns:",
        f"  - {known}{constant}, from {how}",
        "  - how sharply the loss bends at every row, and weights of rows if there are any",
        *_at_label_party(label_party, is_regression=is_regression),
        "Nobody but its owner:",
        "  - columns' names, means, scales, categories and coefficients: they never left",
        "This is a baseline without label protection; use it where labels may be known to all.",
    ]
    return "\n".join(lines)


def _at_label_party(label_party: str, *, is_regression: bool) -> list[str]:
    if is_regression:
        return []  # it measures once, at scores of zero
    return [f"The label party, {label_party!r}:", "  - the total score of every row at every step"]


def _exposed_columns(columns_per_party: Mapping[str, int], n_steps: int) -> list[str]:
    """Scores are combinations of columns: as many of them as columns tell what these span."""
    lines = []
    for party, n_columns in columns_per_party.items():
        if n_columns == 1:
            lines.append(f"  - the one column of {party!r}, but for its unit and origin")
        elif 1 < n_columns <= n_steps:
            lines.append(f"  - the space that the {n_columns} columns of {party!r} span")
    return lines
