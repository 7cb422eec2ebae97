"""The coordinator's memory of its runs."""

import stat
from pathlib import Path

import msgspec
import pytest

from fedforest.errors import ConfigurationError, StorageError
from fedforest.runtime.coordinator.history import History
from fedforest.runtime.messages.orders import RunFilter
from fedforest.runtime.messages.results import (
    Alignment,
    Exchanged,
    Scores,
    ValidationReport,
    VerticalResult,
    Waiting,
)
from fedforest.runtime.trainings.vertical import VERTICAL
from tests.integration.samples import COLUMNS, ROWS, horizontal, vertical

RUN, OTHER = bytes([7]) * 16, bytes([8]) * 16


class Clock:
    """A second passes whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite", Clock())


def exchange(level: int) -> Exchanged:
    note = {"trees": [0, 4], "level": level, "open_nodes": 2**level}
    sent = {"bank": 100 + level, "shop": 50}
    return Exchanged("FindSplits", 2, {"bank": 10, "shop": 20}, sent, 0.25, note)


def result() -> VerticalResult:
    scores = Scores(n_rows=400, values={"accuracy": 0.9}, confusion=[[200, 20], [20, 160]])
    return VerticalResult(
        model=RUN.hex(),
        n_trees=4,
        n_rows=1_600,
        columns_per_party={"bank": 5, "shop": 5},
        importances={},
        classes=None,
        alignment=Alignment(n_common=2_000, n_rows={"bank": 2_100}, n_duplicates={"bank": 3}),
        validation=ValidationReport(federated=scores, alone={"bank": scores}),
    )


def test_a_run_is_remembered_from_its_order_to_its_result(history: History) -> None:
    history.begin(RUN, vertical(2), "analyst")
    history.note_state(RUN, "running")
    for number, level in enumerate([0, 0, 1], start=1):
        history.note_event(RUN, number, exchange(level))
    history.note_result(RUN, VERTICAL.figures(result()))
    shown = history.show(RUN)
    assert (shown.state.state, shown.state.user, shown.state.protocol) == (
        "finished",
        "analyst",
        "vertical",
    )
    assert (shown.state.n_exchanges, shown.state.n_bytes) == (3, 3 * 30 + 301 + 150)
    assert shown.bytes_from == {"bank": 301, "shop": 150}
    assert shown.bytes_to == {"bank": 30, "shop": 60}
    assert (shown.model, shown.n_rows, shown.n_trees) == (RUN.hex(), 1_600, 4)
    assert (shown.alignment, shown.validation) == (result().alignment, result().validation)
    assert shown.order["data"] == dict(vertical(2).data)
    assert shown.started is not None
    assert shown.state.ended is not None
    assert shown.state.created < shown.started < shown.state.ended


def test_an_exchange_that_is_told_again_after_a_restart_counts_once(history: History) -> None:
    history.begin(RUN, vertical(2), "analyst")
    for _ in range(2):
        history.note_event(RUN, 1, exchange(0))
    assert history.show(RUN).state.n_exchanges == 1
    assert history.show(RUN).bytes_from == {"bank": 100, "shop": 50}


def test_the_log_has_states_and_exchanges_in_the_order_of_time(history: History) -> None:
    history.begin(RUN, vertical(2), "analyst")
    history.note_event(RUN, 0, Waiting(["shop"]))
    history.note_event(RUN, 1, exchange(3))
    history.note_state(RUN, "paused", "shop is lost")
    events = history.events(RUN)
    assert [event.kind for event in events] == [
        "ordered",
        "waiting",
        "exchange",
        "exchange",
        "paused",
    ]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert (events[2].party, events[2].level, events[2].open_nodes) == ("bank", 3, 8)
    assert (events[2].first_tree, events[2].last_tree) == (0, 4)
    assert events[-1].text == "shop is lost"


def test_runs_of_others_do_not_mix(history: History) -> None:
    history.begin(RUN, vertical(2), "analyst")
    history.begin(OTHER, horizontal(2), "visitor")
    history.note_event(OTHER, 1, exchange(0))
    states = {state.run: state for state in history.select()}
    assert states[RUN.hex()].n_exchanges == 0
    assert states[OTHER.hex()].protocol == "horizontal"
    assert history.events(RUN)[0].kind == "ordered"
    assert len(history.events(RUN)) == 1


def test_runs_are_chosen_by_user_name_data_set_and_age(history: History) -> None:
    named = msgspec.structs.replace
    history.begin(RUN, named(vertical(2), name="churn 1"), "federation:f/user/ann")
    history.begin(OTHER, named(horizontal(2), name="churn_2"), "federation:f/user/anna")
    chosen = [
        (RunFilter(), "both"),
        (RunFilter(user="ann"), "first"),
        (RunFilter(user="nn"), "none"),
        (RunFilter(name="churn*"), "both"),
        (RunFilter(name="churn 1"), "first"),
        (RunFilter(name="%"), "none"),
        (RunFilter(data=ROWS), "second"),
        (RunFilter(data=COLUMNS[:3]), "none"),
        (RunFilter(before=1_002.5), "first"),
        (RunFilter(after=1_002.5), "second"),
        (RunFilter(user="anna", data=COLUMNS), "none"),
    ]
    runs = {"both": [RUN, OTHER], "first": [RUN], "second": [OTHER], "none": []}
    for which, expected in chosen:
        found = [state.run for state in history.select(which)]
        assert found == [run.hex() for run in runs[expected]], which


def test_a_removed_run_leaves_no_row(history: History) -> None:
    for run in (RUN, OTHER):
        history.begin(run, vertical(2), "analyst")
        history.note_event(run, 1, exchange(0))
    history.remove(RUN)
    assert not history.has(RUN)
    assert history.events(RUN) == []
    assert len(history.events(OTHER)) == 3


def test_everything_survives_a_restart_and_ended_runs_stay_listed(tmp_path: Path) -> None:
    first = History(tmp_path / "history.sqlite")
    first.begin(RUN, vertical(2), "analyst")
    first.begin(OTHER, vertical(2), "analyst")
    first.note_state(OTHER, "cancelled")
    first.close()
    second = History(tmp_path / "history.sqlite")
    assert {state.run: state.state for state in second.select()} == {
        RUN.hex(): "queued",
        OTHER.hex(): "cancelled",
    }
    assert second.not_ended() == [RUN]
    second.close()


def test_it_is_its_owners_file_and_holds_no_seed_of_the_coordinator(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    history = History(path)
    history.begin(RUN, vertical(2), "analyst")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    history.close()


def test_an_unknown_run_and_a_damaged_file_are_named(tmp_path: Path, history: History) -> None:
    with pytest.raises(ConfigurationError, match=f"no run {RUN.hex()}"):
        history.show(RUN)
    (tmp_path / "damaged.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StorageError, match=r"damaged\.sqlite cannot be used"):
        History(tmp_path / "damaged.sqlite")
