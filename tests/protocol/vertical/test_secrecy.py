"""What a transcript does not show: values, names, identities, and who won a node."""

import struct
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.messages import ApplySplits, FindSplits, RowMoves
from fedforest.protocol.vertical.prediction.coordinator import Pace
from fedforest.transport.codec import decode, encode
from tests.protocol.transcripts import Recorder
from tests.protocol.vertical.cases import VerticalCase, sample_case
from tests.protocol.vertical.conversations import (
    CLASSICAL,
    ONE_ROUND,
    OpenTraining,
    leap_after,
    predict_openly,
    sweep_then,
    train_openly,
)

N_ROWS = 60


def planted_case(**changes: Any) -> VerticalCase:
    """Columns of numbers that nothing else has, of recognisable words, and of whole ids."""
    rng = np.random.default_rng(5)
    numbers = 1234.5 + rng.permutation(N_ROWS * 4).reshape(4, N_ROWS) * np.pi
    ids = rng.permutation(N_ROWS) * 7 + 912_345_678
    words = np.array([f"Zebra-{word}" for word in rng.integers(0, 4, N_ROWS)], object)
    columns: dict[str, Any] = {
        "salary_of_person": numbers[0],
        "postcode_of_person": ids.astype(np.float64),
        "illness_of_person": words,
        "height_of_person": numbers[1],
        "debts_of_person": numbers[2],
        "savings_of_person": numbers[3],
    }
    y = (numbers[0] + numbers[2] > numbers.mean() * 2).astype(np.int64)
    case = VerticalCase(columns, y, None, {"n_estimators": 4, "max_features": None}, (2, 2, 2), 1)
    return replace(case, **changes)


def encodings(value: Any) -> set[bytes]:
    """The forms in which a value could be written."""
    if isinstance(value, str):
        return {value.encode(), value.encode("utf-16-le"), value.upper().encode()}
    texts = {repr(float(value)), f"{value:.6g}", f"{value:.3f}", f"{value:.10g}"}
    forms = {text.encode() for text in texts if len(text) >= 6}
    for order in "<>":
        forms |= {struct.pack(f"{order}d", value), struct.pack(f"{order}f", value)}
        if float(value).is_integer():
            forms |= {struct.pack(f"{order}q", int(value)), struct.pack(f"{order}i", int(value))}
    return forms


def secrets_of(case: VerticalCase) -> set[bytes]:
    """Every planted thing in every form."""
    found: set[bytes] = set()
    for name, column in case.columns.items():
        found |= encodings(name)
        for value in set(column.tolist()):
            found |= encodings(value)
    return found


def assert_nothing_planted(case: VerticalCase, recorder: Recorder) -> None:
    transcript = recorder.everything()
    assert len(transcript) > 200
    assert not [secret for secret in secrets_of(case) if secret in transcript]


@pytest.mark.parametrize("out_of_bag", [False, True])
def test_training_sends_no_value_name_or_identity(out_of_bag: bool) -> None:
    case = planted_case()
    assert_nothing_planted(case, train_openly(case, out_of_bag=out_of_bag).recorder)


def test_training_towards_numbers_sends_no_column_value_and_no_target_as_it_is() -> None:
    rng = np.random.default_rng(2)
    case = planted_case(y=rng.permutation(N_ROWS) * np.e + 4321.25)
    transcript = train_openly(case).recorder.everything()
    as_text = {repr(float(value)).encode() for value in case.y}
    as_bytes = {struct.pack(f"{order}d", value) for value in case.y for order in "<>"}
    assert not [form for form in as_text | as_bytes if form in transcript]
    assert_nothing_planted(case, train_openly(case).recorder)


@pytest.mark.parametrize("pace", [CLASSICAL, 1, 2, ONE_ROUND, sweep_then(3, 1), leap_after()])
def test_prediction_sends_no_value_name_or_identity(pace: Pace) -> None:
    case = planted_case()
    training = train_openly(case)
    assert_nothing_planted(case, predict_openly(training, pace).recorder)


@pytest.mark.parametrize("column", ["salary_of_person", "postcode_of_person", "illness_of_person"])
@pytest.mark.parametrize("row", [0, 17, N_ROWS - 1])
def test_the_search_would_find_a_value_that_slipped_into_a_message(column: str, row: int) -> None:
    case = planted_case()
    value = case.columns[column][row]
    for form in {*encodings(value), *encodings(column)}:
        recorder = train_openly(case).recorder if row == 0 else Recorder(None)  # type: ignore[arg-type]
        recorder.replies.append({"p0": b"\x00" * 600 + form})
        with pytest.raises(AssertionError):
            assert_nothing_planted(case, recorder)


def bin_edges(training: OpenTraining) -> set[bytes]:
    edges = [
        edge
        for model in training.models().values()
        for feature in range(model.bins.n_features)
        for edge in model.bins.edges(feature).tolist()
    ]
    assert len(edges) > N_ROWS
    return {struct.pack("<d", edge) for edge in edges}


def test_bin_edges_never_leave() -> None:
    training = train_openly(planted_case())
    transcript = training.recorder.everything()
    assert not [edge for edge in bin_edges(training) if edge in transcript]


def test_nothing_in_a_request_could_name_a_party() -> None:
    """Requests hold flags, bits, codes and seeds; no field is made for an owner or a winner."""
    fields = {
        field.name
        for kind in (*messages.REQUESTS, RowMoves)
        for field in msgspec.structs.fields(kind)
    }
    assert not {name for name in fields if "own" in name or "part" in name} - {"own_decrease"}


def twin_case(first_wins: bool) -> VerticalCase:
    """Parties 0 and 1 hold a telling and a useless column, either way round; party 2 watches."""
    rng = np.random.default_rng(3)
    telling, useless = rng.random(80), np.zeros(80)
    y = np.digitize(telling, [0.2, 0.45, 0.7]) % 2
    first, second = (telling, useless) if first_wins else (useless, telling)
    columns = {"a": first, "b": second, "c": np.zeros(80)}
    parameters = {"n_estimators": 3, "max_features": None}
    return VerticalCase(columns, y, None, parameters, (1, 1, 1), label_party=2)


def test_who_only_watches_hears_the_same_whoever_wins() -> None:
    one, other = (train_openly(twin_case(first_wins=first)) for first in (True, False))
    owners = [set(t.trained.outline.owner.tolist()) - {-1} for t in (one, other)]
    assert owners == [{0}, {1}]
    assert one.recorder.requests_to("p2") == other.recorder.requests_to("p2")
    assert len(one.recorder.requests_to("p2")) > 5


def test_two_parties_that_did_not_win_hear_the_same_moves() -> None:
    training = train_openly(sample_case(shares=(1, 1, 1, 1, 1, 1)))
    winners: set[str] = set()
    n_compared = 0
    for sent in training.recorder.requests:
        requests = {party: decode(data, messages.REQUESTS) for party, data in sent.items()}
        if any(isinstance(request, ApplySplits) for request in requests.values()):
            winners = set(requests)
        heard = {
            party: encode(replace_candidates(request))
            for party, request in requests.items()
            if isinstance(request, FindSplits) and party not in winners
        }
        assert len(set(heard.values())) <= 1
        n_compared += len(heard) > 1 and len(winners) > 0
    assert n_compared > 0


def replace_candidates(request: FindSplits) -> FindSplits:
    """The same without what was drawn for this party alone."""
    return FindSplits(request.moves, memoryview(b""))
