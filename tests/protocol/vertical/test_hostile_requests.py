"""A coordinator that sends nonsense: a party refuses with a named error and stays as it was."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import FederationError, RemoteProtocolError
from fedforest.kernels.prediction.leap import LEAP
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    FindSplits,
    FinishTrees,
    LeafValues,
    ShareLabels,
    StartTrees,
    TakeLabels,
    WeighColumns,
)
from fedforest.protocol.vertical.prediction.classical_walk import AskSplit
from fedforest.protocol.vertical.prediction.coordinator import Pace
from fedforest.protocol.vertical.prediction.messages import LeapRows, RouteRows, SweepRows
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.codec import decode
from tests.protocol.vertical.cases import VerticalCase, sample_case
from tests.protocol.vertical.conversations import (
    CLASSICAL,
    ONE_ROUND,
    accepted_at,
    leap_after,
    make_parties,
    predict_openly,
    predicting_parties,
    sweep_then,
    train_openly,
)
from tests.protocol.vertical.mutations import little_memory, mutate

FEW, MANY = 1000, 20_000

STUMPS = {"n_estimators": 2, "max_depth": 1}
SWEPT, LEAPT = sweep_then(3, 2), leap_after(2)
PREDICTION_REQUESTS = [
    ("SweepRows", SWEPT),
    ("RouteRows", SWEPT),
    ("LeapRows", LEAPT),
    ("RouteRows", 1),
    ("RouteRows", 2),
    ("RouteRows", ONE_ROUND),
    ("AskSplit", CLASSICAL),
]


@dataclass(frozen=True, eq=False)
class Recording:
    """What one party was asked in an honest run, what it said, and how to get it back."""

    make_party: Callable[[], Handler]
    accepted: tuple[type[Message], ...]
    requests: list[bytes]
    replies: list[bytes]

    def kind(self, step: int) -> str:
        return type(decode(self.requests[step], self.accepted)).__name__

    def steps_of(self, kind: str) -> list[int]:
        return [step for step in range(len(self.requests)) if self.kind(step) == kind]

    def party_before(self, step: int) -> Handler:
        party = self.make_party()
        endpoint = make_endpoint(party, self.accepted)
        for request, reply in zip(self.requests[:step], self.replies[:step], strict=True):
            assert endpoint(request) == reply
        return party


@cache
def training_recording(task: str) -> Recording:
    """The label party of an honest training, which has columns and lets left-out rows vote."""
    training = train_openly(training_case(task), out_of_bag=True)
    sent = zip(training.recorder.requests, training.recorder.replies, strict=True)
    heard = [(requests["p1"], replies["p1"]) for requests, replies in sent if "p1" in requests]
    return Recording(
        lambda: make_parties(training_case(task))["p1"],
        messages.REQUESTS,
        [request for request, _ in heard],
        [reply for _, reply in heard],
    )


def training_case(task: str) -> VerticalCase:
    case = sample_case(shares=(1, 4, 1), batch_bytes=9000)
    if task == "classes":
        return case
    rng = np.random.default_rng(0)
    return sample_case(
        shares=(1, 4, 1), y=case.y + rng.standard_normal(150), weights=rng.random(150)
    )


@cache
def prediction_recording(pace: Pace) -> Recording:
    """A party of an honest prediction."""
    training = train_openly(sample_case(shares=(1, 4, 1)))
    predicted = predict_openly(training, pace)
    sent = zip(predicted.recorder.requests, predicted.recorder.replies, strict=True)
    heard = [(requests["p1"], replies["p1"]) for requests, replies in sent if "p1" in requests]
    return Recording(
        lambda: predicting_parties(training, classical=pace == CLASSICAL)["p1"],
        accepted_at(pace),
        [request for request, _ in heard][:40],
        [reply for _, reply in heard][:40],
    )


def assert_refuses_mutants(recording: Recording, kind: str, n_mutants: int) -> None:
    """Mutants are refused by name or are requests in their own right; refusals change nothing."""
    steps = recording.steps_of(kind)
    chosen = [steps[k] for k in np.unique(np.linspace(0, len(steps) - 1, 6).astype(int))]
    rng = np.random.default_rng(11)
    n_refused = 0
    for step in chosen:
        n_refused += _attack(recording, step, n_mutants // len(chosen), rng)
    assert n_refused > n_mutants // 4


def _attack(recording: Recording, step: int, n_mutants: int, rng: np.random.Generator) -> int:
    untouched = recording.party_before(step)
    party, n_refused = copy.deepcopy(untouched), 0
    for _ in range(n_mutants):
        mutant = mutate(recording.requests[step], rng)
        try:
            make_endpoint(party, recording.accepted)(mutant)
        except FederationError as refusal:
            assert_names_the_coordinator(refusal)
            n_refused += 1
        else:  # a request that could have been meant
            assert_goes_on(party, recording, step)
            party = copy.deepcopy(untouched)
    endpoint = make_endpoint(party, recording.accepted)
    for request, reply in zip(recording.requests[step:], recording.replies[step:], strict=True):
        assert endpoint(request) == reply
    return n_refused


def assert_names_the_coordinator(refusal: FederationError) -> None:
    assert isinstance(refusal, RemoteProtocolError)
    assert refusal.party == "coordinator"


def assert_goes_on(party: Handler, recording: Recording, step: int) -> None:
    """After an accepted mutant the party still answers, or refuses by name, whatever follows."""
    endpoint = make_endpoint(party, recording.accepted)
    for request in recording.requests[step + 1 : step + 3]:
        try:
            endpoint(request)
        except FederationError:
            return


TRAINING_KINDS = [kind.__name__ for kind in messages.REQUESTS]


@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("kind", TRAINING_KINDS)
def test_a_training_party_survives_mutated_requests(kind: str, task: str) -> None:
    with little_memory():
        assert_refuses_mutants(training_recording(task), kind, FEW // 2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("kind", TRAINING_KINDS)
def test_a_training_party_survives_many_mutated_requests(kind: str, task: str) -> None:
    with little_memory():
        assert_refuses_mutants(training_recording(task), kind, MANY // 2)


@pytest.mark.parametrize(("kind", "pace"), PREDICTION_REQUESTS)
def test_a_predicting_party_survives_mutated_requests(kind: str, pace: Pace) -> None:
    with little_memory():
        assert_refuses_mutants(prediction_recording(pace), kind, FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "pace"), PREDICTION_REQUESTS)
def test_a_predicting_party_survives_many_mutated_requests(kind: str, pace: Pace) -> None:
    with little_memory():
        assert_refuses_mutants(prediction_recording(pace), kind, MANY)


def refuse(party: Handler, request: Message, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        party.handle(request)
    assert caught.value.party == "coordinator"


def growing_party(n_steps: int = 1, task: str = "classes") -> tuple[Handler, FindSplits]:
    """A party before its so-manieth search for splits, and the right request for it."""
    recording = training_recording(task)
    step = recording.steps_of("FindSplits")[n_steps]
    request = decode(recording.requests[step], messages.REQUESTS)
    assert isinstance(request, FindSplits)
    return recording.party_before(step), request


def recorded(kind: type[Message], task: str = "classes") -> tuple[Handler, Any]:
    """A party before it is first sent such a request, and that request."""
    recording = training_recording(task)
    step = recording.steps_of(kind.__name__)[0]
    return recording.party_before(step), decode(recording.requests[step], messages.REQUESTS)


def changed(request: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(request, **fields)


def test_a_request_of_another_protocol_is_refused() -> None:
    refuse(make_parties(sample_case())["p0"], RouteRows(0, 1, 1), "no request of this protocol")


@pytest.mark.parametrize(
    "request_too_early",
    [
        StartTrees(memoryview(bytes(8)), True, 5, 1, False),  # noqa: FBT003 - as it travels
        FindSplits(None, memoryview(b"")),
        ApplySplits(memoryview(b""), True),  # noqa: FBT003 - as it travels
        FinishTrees(None),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_that_comes_too_early_is_refused(request_too_early: Message) -> None:
    refuse(make_parties(sample_case())["p0"], request_too_early, "started")


def test_columns_of_a_forest_without_trees_weigh_nothing() -> None:
    party = make_parties(sample_case())["p0"]
    refuse(party, WeighColumns(memoryview(bytes(8)), memoryview(bytes(8))), "decreases")
    refuse(party, WeighColumns(memoryview(b""), memoryview(b""), 1), "dropped")


def test_labels_are_given_out_once() -> None:
    party = make_parties(sample_case())["p1"]
    party.handle(BinColumns(0, 255))
    party.handle(ShareLabels((0, 1, 2), 1.0))
    refuse(party, ShareLabels((0, 1, 2), 1.0), "twice")
    refuse(party, ShareLabels((0, 1, 2)), "twice")


@pytest.mark.parametrize("codes", [(), (0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3)])
def test_class_codes_that_are_no_permutation_are_refused(codes: tuple[int, ...]) -> None:
    party = make_parties(sample_case())["p1"]
    refuse(party, ShareLabels(codes), "codes")


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf, 1e-300])
def test_a_label_privacy_that_is_none_is_refused(epsilon: float) -> None:
    refuse(make_parties(sample_case())["p1"], ShareLabels((0, 1, 2), epsilon), "privacy")


def test_labels_are_not_asked_of_a_party_that_has_none() -> None:
    refuse(make_parties(sample_case())["p0"], ShareLabels((0, 1, 2)), "has none")


def test_noise_and_codes_are_refused_for_regression_targets() -> None:
    party, _ = recorded(ShareLabels, "numbers")
    refuse(party, ShareLabels((), 1.0), "noise protects classes")
    refuse(party, ShareLabels((0,)), "no classes")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_classes": 1001}, "too many classes"),
        ({"criterion": "variance"}, "another task"),
        ({"criterion": "luck"}, "unknown"),
        ({"n_classes": 2}, "out of range"),
        ({"n_classes": 300}, "class codes"),
        ({"n_classes": 0, "criterion": "variance"}, "targets"),
    ],
)
def test_labels_that_do_not_fit_the_task_are_refused(changes: Any, reason: str) -> None:
    party, request = recorded(TakeLabels)
    refuse(party, changed(request, **changes), reason)


@pytest.mark.parametrize("weight", [-1, 0, 2**52, 2**62])
def test_weights_that_cannot_be_added_up_are_refused(weight: int) -> None:
    party, request = recorded(TakeLabels)
    weights = np.full(150, weight).tobytes()
    labels = changed(request.labels, weights=memoryview(weights))
    refuse(party, changed(request, labels=labels), "weights")


@pytest.mark.parametrize("level", [2**62, -(2**63), 2**60])
def test_targets_that_cannot_be_added_up_are_refused(level: int) -> None:
    party, request = recorded(TakeLabels, "numbers")
    levels = np.full(150, level).tobytes()
    labels = changed(request.labels, levels=memoryview(levels))
    refuse(party, changed(request, labels=labels), "targets are too large")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"row_seeds": memoryview(b"")}, "no trees"),
        ({"row_seeds": memoryview(bytes(9))}, "row seeds"),
        ({"row_seeds": memoryview(bytes(8 * 10**7))}, "too many trees"),
        ({"n_draws": 0}, "drawn"),
        ({"n_draws": 151}, "drawn"),
        ({"n_draws": 2**31 - 1}, "drawn"),
        ({"min_rows_leaf": 0}, "no rows"),
        ({"min_weight_share": -0.1}, "weigh"),
        ({"min_weight_share": 0.6}, "weigh"),
        ({"min_weight_share": math.nan}, "weigh"),
        ({"min_weight_share": math.inf}, "weigh"),
    ],
)
def test_trees_that_cannot_be_started_are_refused_without_setting_memory_aside(
    changes: Any, reason: str
) -> None:
    party, request = recorded(StartTrees)
    with little_memory(2**28):
        refuse(party, changed(request, **changes), reason)
    party.handle(request)


def test_candidates_are_refused_before_any_row_moves() -> None:
    party, request = growing_party()
    columns = np.frombuffer(request.candidates, np.uint8)
    for bad in (columns[:-1], np.append(columns, 0), columns | 16, columns | 128):
        refuse(party, changed(request, candidates=memoryview(bytes(bad))), "candidate")
    party.handle(request)


def test_moves_that_cannot_be_are_refused() -> None:
    party, request = growing_party()
    moves = request.moves
    assert moves is not None
    fates = np.frombuffer(moves.fates, np.uint8)
    unsplit_with_right_child = np.zeros_like(fates)
    unsplit_with_right_child[0] = 0b100
    padded = fates.copy()
    padded[-1] |= 0x80
    bits = np.frombuffer(moves.bits.data, np.uint8)
    for changes, reason in (
        ({"fates": memoryview(bytes(fates[:-1]))}, "fates"),
        ({"fates": memoryview(bytes(fates) + b"\0")}, "fates"),
        ({"fates": memoryview(bytes(unsplit_with_right_child))}, "right child|not split"),
        ({"fates": memoryview(bytes(padded))}, "padded|right child"),
        ({"bits": RowBits(memoryview(bytes(bits[:-1])))}, "row bits"),
        ({"bits": RowBits(memoryview(bytes(bits) + b"\0"))}, "row bits"),
        ({"bits": RowBits(memoryview(b"\xff" * len(bits)))}, "padded|min_samples_leaf"),
        ({"bits": RowBits(memoryview(bytes(len(bits))))}, "min_samples_leaf"),
        ({"left_out_bits": RowBits(memoryview(b""))}, "row bits"),
    ):
        refuse(party, changed(request, moves=changed(moves, **changes)), reason)
    party.handle(request)


def test_a_step_is_not_begun_before_the_last_one_ended() -> None:
    party, request = growing_party(n_steps=0)
    party.handle(request)
    refuse(party, request, "last one|fates")
    refuse(party, FindSplits(None, request.candidates), "last one")


def test_splits_are_made_once_and_only_where_one_was_found() -> None:
    recording = training_recording("classes")
    step = recording.steps_of("ApplySplits")[1]
    party = recording.party_before(step)
    request = decode(recording.requests[step], messages.REQUESTS)
    assert isinstance(request, ApplySplits)
    for bad in (b"", bytes(request.won) + b"\0"):
        refuse(party, changed(request, won=memoryview(bad)), "node flags")
    party.handle(request)
    refuse(party, request, "out of turn")


def test_splits_are_not_made_by_what_was_found_in_an_earlier_step() -> None:
    recording = training_recording("classes")
    party = recording.party_before(recording.steps_of("StartTrees")[0] + 1)
    refuse(party, ApplySplits(memoryview(b"\1"), True), "out of turn|node flags")  # noqa: FBT003


def leaf_values(request: FinishTrees, **changes: Any) -> FinishTrees:
    assert request.leaves is not None
    read: dict[str, Any] = {
        "start": np.frombuffer(request.leaves.start, np.int64).copy(),
        "label": np.frombuffer(request.leaves.label, np.uint16).copy(),
        "value": np.frombuffer(request.leaves.value, np.float64).copy(),
    }
    for name, change in changes.items():
        read[name] = change(read[name])
    leaves = LeafValues(*(memoryview(read[name].tobytes()) for name in ("start", "label", "value")))
    return FinishTrees(request.moves, leaves, request.hard_votes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"label": lambda label: label + 3}, "a class that there is not"),
        ({"label": lambda label: label[:-1]}, "leaf labels"),
        ({"label": lambda label: label[:0]}, "leaf labels"),
        ({"value": lambda value: value[:-1]}, "leaf values"),
        ({"value": lambda value: value * np.nan}, "not a number"),
        ({"start": lambda start: start[:-1]}, "leaf starts"),
        ({"start": lambda start: start + 1}, "out of order"),
        ({"start": lambda start: np.where(start == start[-1], 2**62, start)}, "leaf values"),
        ({"start": lambda start: start[::-1]}, "out of order"),
        ({"start": lambda start: np.where(start < start[-1], 0, start)}, "of the leaves"),
    ],
)
def test_leaves_that_rows_cannot_vote_by_are_refused_before_any_row_moves(
    changes: Any, reason: str
) -> None:
    party, request = recorded(FinishTrees)
    refuse(party, leaf_values(request, **changes), reason)
    party.handle(request)


def test_leaves_are_refused_by_who_has_no_labels_and_where_no_rows_were_left_out() -> None:
    _, request = recorded(FinishTrees)
    training = train_openly(training_case("classes"))
    sent = [s for s in training.recorder.requests if b"FinishTrees" in next(iter(s.values()))]
    for name, reason in (("p1", "no rows were left out"), ("p0", "label party")):
        party = replayed(training, name, before="FinishTrees")
        honest = decode(sent[0][name], messages.REQUESTS)
        assert isinstance(honest, FinishTrees)
        refuse(party, changed(honest, leaves=request.leaves), reason)
        party.handle(honest)


def replayed(training: Any, name: str, before: str) -> Handler:
    """A fresh party that has heard everything before the first request of a kind."""
    party = make_parties(training.case)[name]
    for data in training.recorder.requests_to(name):
        request = decode(data, messages.REQUESTS)
        if type(request).__name__ == before:
            break
        party.handle(request)
    return party


def test_trees_are_not_finished_while_nodes_are_open() -> None:
    party, request = growing_party()
    refuse(party, FinishTrees(request.moves), "open nodes")
    party.handle(request)


def test_more_trees_than_the_last_batch_has_are_not_dropped() -> None:
    party, request = recorded(WeighColumns)
    refuse(party, changed(request, n_dropped=2**31 - 1), "dropped")
    refuse(party, changed(request, n_dropped=4), "dropped")
    party.handle(request)


def test_trees_that_were_not_grown_are_not_the_end_of_a_training() -> None:
    party, request = recorded(WeighColumns)
    for n_trees in (0, 1, 2, 5, 2**20):  # there are four, one of them in the last batch
        totals = memoryview(np.ones(n_trees).tobytes())
        refuse(party, changed(request, tree_totals=totals, ends_early=True), "other trees")
    refuse(party, changed(request, n_dropped=1, ends_early=True), "two ways")
    party.handle(request)


def test_trees_that_still_grow_are_given_up_only_when_training_ends_early() -> None:
    party, _ = growing_party()
    nothing = memoryview(b"")
    refuse(party, WeighColumns(nothing, nothing), "growing")
    refuse(party, WeighColumns(nothing, nothing, ends_early=True), "other trees")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_decreases_that_give_no_importance_are_refused(value: float) -> None:
    party, request = recorded(WeighColumns)
    n_own = len(request.own_decrease) // 8
    decrease = np.full(n_own, value).tobytes()
    tiny = np.full(len(request.tree_totals) // 8, 1e-308).tobytes()
    refuse(party, WeighColumns(memoryview(decrease), memoryview(tiny)), "decreases")
    party.handle(request)


@pytest.mark.parametrize(("first", "last"), [(0, 151), (5, 5), (7, 5), (2**31 - 2, 2**31 - 1)])
def test_rows_that_are_not_in_the_table_are_refused(first: int, last: int) -> None:
    party = prediction_recording(1).make_party()
    for request in (RouteRows(first, last, 1), SweepRows(first, last, 1), LeapRows(first, last)):
        refuse(party, request, "not in the table|150 are agreed on")


def test_the_largest_lookahead_sets_no_memory_aside() -> None:
    party = prediction_recording(1).make_party()
    with little_memory(2**26):
        party.handle(RouteRows(0, 150, 2**31 - 1))


@pytest.mark.parametrize("pace", [1, 2, SWEPT, LEAPT, leap_after()])
def test_rows_do_not_move_on_before_they_set_out_or_by_other_rows_turns(pace: Pace) -> None:
    recording = prediction_recording(pace)
    first, second = (decode(data, recording.accepted) for data in recording.requests[:2])
    assert isinstance(second, RouteRows | LeapRows)
    refuse(recording.make_party(), second, "set out")
    party = recording.make_party()
    party.handle(first)
    refuse(party, changed(second, last_row=149), "set out")
    turns = bytes(second.turns or b"")
    refuse(party, changed(second, turns=memoryview(turns[:-1])), "too short")
    refuse(party, changed(second, turns=memoryview(turns + b"\0")), "too long")
    refuse(party, changed(second, turns=memoryview(turns[:-1] + b"\x80")), "padded")
    party.handle(second)


@pytest.mark.parametrize(
    ("first", "n_levels"), [(SweepRows(0, 150, 2), 2), (LeapRows(0, 150), LEAP)]
)
def test_turns_that_lead_nowhere_are_refused(first: Message, n_levels: int) -> None:
    """A row that is at a leaf after its first turn cannot turn again."""
    rows = {"c0": np.arange(150.0), "c1": np.zeros(150)}
    case = VerticalCase(rows, (np.arange(150) > 70).astype(np.int64), None, STUMPS, (1, 1))
    party = predicting_parties(train_openly(case))["p1"]  # which has no split of its own
    party.handle(first)
    turns = np.zeros((2, n_levels, 3), np.uint64)  # trees, levels, words
    turns[:, 1, 0] = 1
    refuse(party, LeapRows(0, 150, memoryview(turns.tobytes())), "nowhere")
    refuse(party, RouteRows(0, 150, 1, memoryview(turns.tobytes())), "nowhere")
    turns[:, 1, 0], turns[:, 0, 0] = 0, 1
    party.handle(RouteRows(0, 150, 1, memoryview(turns.tobytes())))


@pytest.mark.parametrize(
    ("request_for", "reason"),
    [
        (lambda _: AskSplit(150, 0), "row"),
        (lambda shape: AskSplit(0, shape.n_nodes), "node"),
        (lambda shape: AskSplit(0, int(np.flatnonzero(shape.left_child < 0)[0])), "another's"),
    ],
)
def test_a_split_that_a_party_does_not_have_is_refused(request_for: Any, reason: str) -> None:
    training = train_openly(sample_case(shares=(1, 4, 1)))
    party = predicting_parties(training, classical=True)["p1"]
    refuse(party, request_for(training.trained.outline.shape), reason)
