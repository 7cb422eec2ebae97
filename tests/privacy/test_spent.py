"""What was spent: a dictionary to programs, a text to people."""

import copy
import pickle
from typing import Any

import numpy as np

from fedforest import GlobalDP, HorizontalExtraTreesClassifier, LocalDP
from fedforest.privacy.composition import spend_global
from fedforest.privacy.queries import Queries
from fedforest.privacy.spent import SpentPrivacy


def spent() -> SpentPrivacy:
    figures = {
        "summary": "In short.",
        "label_epsilon": 2.0,
        "queries": 1200,
        "protected": "labels",
        "not_protected": ("a", "b < c"),
    }
    return SpentPrivacy.of(figures, ["1 + 1"])


def test_figures_are_found_by_name() -> None:
    assert spent()["label_epsilon"] == 2.0
    assert spent() == dict(spent())
    assert spent().summary == "In short."


def test_printing_gives_the_text() -> None:
    assert str(spent()) == (
        "In short.\n\nProtected: labels.\n  1 + 1\nNot protected:\n  - a\n  - b < c"
    )


def test_copies_say_the_same() -> None:
    for again in (pickle.loads(pickle.dumps(spent())), copy.copy(spent()), copy.deepcopy(spent())):
        assert again == spent()
        assert str(again) == str(spent())


def test_notebooks_show_the_sentence_a_table_and_details_on_demand() -> None:
    shown = spent()._repr_html_()
    assert shown.startswith("<p><b>In short.</b></p><table>")
    assert "<td>ε of the training</td><td>2</td>" in shown
    assert "<td>1,200</td>" in shown
    assert "<details><summary>Not protected</summary>" in shown
    assert "b &lt; c" in shown


def fitted(privacy: Any, **options: Any) -> SpentPrivacy:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    forest = HorizontalExtraTreesClassifier(2, max_depth=2, privacy=privacy, **options)
    spent: SpentPrivacy = forest.fit(X, X[:, 0] > 0, party=np.arange(200) % 2).privacy_spent_
    return spent


def test_one_sentence_names_unit_epsilon_delta_adversary_and_what_is_not_covered() -> None:
    local, of_all = fitted(LocalDP(epsilon=4.0)).summary, fitted(GlobalDP(epsilon=3.0)).summary
    for sentence, epsilon in ((local, "4"), (of_all, "3")):
        assert sentence.startswith(
            "The label of each row is protected by differential privacy with ε = "
            f"{epsilon} and δ = 0 over "
        )
        assert "against everybody but the party that holds it" in sentence
        assert sentence.endswith("are not covered.")
        assert sentence.count(". ") == 0, "one sentence"
    assert "which must be fully trusted" in of_all
    assert "all others that answer from its permanent responses" in local
    assert "all others" not in of_all


def test_without_noise_the_sentence_says_so_first() -> None:
    text = str(fitted(None))
    assert text.startswith("No differential privacy (ε = ∞): statistics of labels left their")


def test_queries_that_nothing_limits_are_told_as_what_was_asked() -> None:
    assert "ε = ∞" not in fitted(GlobalDP(epsilon_query=1.0)).summary
    unlimited = spend_global(1.0, Queries(2, None, 3)).describe()
    assert unlimited.summary.startswith("No differential privacy (ε = ∞): nothing limits")
