"""What `fedforest audit report` says of the epsilon of labels: whole sentences."""

import pytest

from fedforest.cli.audit import _say_epsilon


@pytest.mark.parametrize(
    ("spent", "left", "sentence"),
    [
        (
            1.5,
            0.5,
            "all runs together spent epsilon 1.5 on the labels of loans; 0.5 is left below the "
            "ceiling of its policy",
        ),
        (
            1.5,
            None,
            "all runs together spent epsilon 1.5 on the labels of loans; its policy sets no "
            "ceiling (epsilon_ceiling)",
        ),
        (
            None,
            None,
            "a run used the labels of loans without noise, which no epsilon bounds; its policy "
            "sets no ceiling (epsilon_ceiling)",
        ),
    ],
)
def test_spent_and_left_are_one_sentence(
    spent: float | None, left: float | None, sentence: str
) -> None:
    assert _say_epsilon("loans", spent, left) == sentence
