"""Which run a name or an id means; every command answers alike."""

from collections.abc import Callable
from typing import Any

import pytest

from fedforest.cli.runs import find_model, find_run
from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.results import RunList, RunState

NAMED = [("aa01", "churn", "finished"), ("bb02", "churn", "failed"), ("cc03", "", "paused")]


class Coordinator:
    """Answers with these runs."""

    def ask(self, _order: object, _kind: object) -> RunList:
        return RunList(
            [RunState(run=run, name=name, state=state, doing="") for run, name, state in NAMED]
        )


def find(by: Callable[..., RunState], text: str) -> str:
    federation: Any = Coordinator()
    return by(federation, text).run


def test_a_name_means_the_latest_run_of_that_name() -> None:
    assert find(find_run, "churn") == "bb02"
    assert find(find_run, "aa") == "aa01"


def test_a_prediction_takes_the_same_run_as_show_or_says_which_one_has_a_model() -> None:
    with pytest.raises(
        ConfigurationError,
        match="run bb02 is failed and has no model; the latest finished one of that name is aa01",
    ):
        find(find_model, "churn")
    assert find(find_model, "aa01") == "aa01"
    with pytest.raises(ConfigurationError, match="run cc03 is paused and has no model; see"):
        find(find_model, "cc")
