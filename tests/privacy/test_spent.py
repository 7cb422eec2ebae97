"""What was spent: a dictionary to programs, a text to people."""

import copy
import pickle

from fedforest.privacy.spent import SpentPrivacy


def spent() -> SpentPrivacy:
    figures = {"label_epsilon": 2.0, "protected": "labels", "not_protected": ("a", "b")}
    return SpentPrivacy.of(figures, ["1 + 1"])


def test_figures_are_found_by_name() -> None:
    assert spent()["label_epsilon"] == 2.0
    assert spent() == {"label_epsilon": 2.0, "protected": "labels", "not_protected": ("a", "b")}


def test_printing_gives_the_text() -> None:
    assert str(spent()) == "Protected: labels.\n  1 + 1\nNot protected:\n  - a\n  - b"


def test_copies_say_the_same() -> None:
    for again in (pickle.loads(pickle.dumps(spent())), copy.copy(spent()), copy.deepcopy(spent())):
        assert again == spent()
        assert str(again) == str(spent())
