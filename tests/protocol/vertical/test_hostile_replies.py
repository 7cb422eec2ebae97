"""Parties that answer nonsense: the coordinator names them, and never trains a wrong forest on.

Recorded replies are replayed into a fresh coordinator up to one that is replaced; some runs go on
with real parties afterwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from fedforest.errors import DataError, FederationError, RemoteProtocolError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.asking import Ask, Message
from fedforest.protocol.payloads import (
    Gains,
    Importances,
    LabelScale,
    NodeSums,
    Outcomes,
    OutOfBagScores,
    OutOfBagVotes,
    RowBits,
    TableSize,
)
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.coordinator import train
from fedforest.protocol.vertical.messages import (
    ColumnsBinned,
    ColumnsWeighed,
    LabelsShared,
    SplitsApplied,
    SplitsFound,
    TreesFinished,
    TreesStarted,
)
from fedforest.protocol.vertical.prediction.classical_walk import SplitAsked, walk_classically
from fedforest.protocol.vertical.prediction.coordinator import Pace, PredictionOrder, route
from fedforest.protocol.vertical.prediction.messages import RowsLeapt, RowsRouted, RowsSwept
from fedforest.runtime.driver import run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.transport.base import Transport
from fedforest.transport.codec import encode
from fedforest.transport.in_process import InProcess
from tests.protocol.named_replies import replies_to
from tests.protocol.transcripts import RecordedReplies, Replaced, Replay
from tests.protocol.vertical.cases import VerticalCase, sample_case
from tests.protocol.vertical.conversations import (
    CLASSICAL,
    ONE_ROUND,
    leap_after,
    make_order,
    make_parties,
    predict_openly,
    sweep_then,
    train_openly,
)
from tests.protocol.vertical.mutations import little_memory, mutate

FEW, MANY, LIVE = 1000, 20_000, 60

SWEPT, LEAPT = sweep_then(3, 2), leap_after(2)
PREDICTION_REPLIES = [
    ("RowsSwept", SWEPT),
    ("RowsRouted", SWEPT),
    ("RowsLeapt", LEAPT),
    ("RowsRouted", 1),
    ("RowsRouted", 3),
    ("RowsRouted", ONE_ROUND),
    ("SplitAsked", CLASSICAL),
]


@cache
def training_recording(task: str) -> RecordedReplies:
    case = training_case(task)
    training = train_openly(case, out_of_bag=True)
    return RecordedReplies(
        lambda: train(make_order(case, out_of_bag=True)), training.recorder.replies
    )


def training_case(task: str) -> VerticalCase:
    case = sample_case(shares=(1, 4, 1), parameters={"n_estimators": 2, "max_depth": 5})
    if task == "classes":
        return case
    rng = np.random.default_rng(0)
    if task == "limited":
        limits = {"n_estimators": 2, "min_weight_fraction_leaf": 0.1}
        return sample_case(shares=(1, 4, 1), parameters=limits)
    if task.endswith("one tree"):
        limits = {"n_estimators": 1, "min_weight_fraction_leaf": 0.1}
        y = case.y + rng.standard_normal(150) if task.startswith("numbers") else case.y
        return sample_case(shares=(1, 4, 1), y=y, weights=rng.random(150), parameters=limits)
    return sample_case(
        shares=(1, 4, 1),
        y=case.y + rng.standard_normal(150),
        weights=rng.random(150),
        parameters={"n_estimators": 2, "max_depth": 4},
    )


@cache
def prediction_recording(pace: Pace) -> RecordedReplies:
    training = train_openly(sample_case(parameters={"n_estimators": 3, "max_depth": 6}))
    predicted = predict_openly(training, pace)
    n_rows = len(training.case.y)
    order = PredictionOrder(training.trained.outline, training.order.parties, n_rows, pace)
    begin = walk_classically if pace == CLASSICAL else route
    return RecordedReplies(lambda: begin(order), predicted.recorder.replies)


def assert_survives_mutants(recording: RecordedReplies, kind: str, n_mutants: int) -> None:
    """A mutated reply is taken, or refused by a named error that names its sender."""
    places = recording.places_of(kind)
    rng = np.random.default_rng(13)
    n_refused = 0
    for _ in range(n_mutants):
        at, party = places[int(rng.integers(min(len(places), 12)))]
        bad = mutate(recording.replies[at][party], rng)
        try:
            recording.replace(at, party, bad)
        except Replaced:
            continue
        except FederationError as refusal:
            assert_names(refusal, kind, party)
        n_refused += 1
    assert n_refused > n_mutants // 10


def assert_names(refusal: FederationError, kind: str, party: str) -> None:
    """The sender is to blame; where sizes differ, nobody can tell who is right: all are told."""
    if kind == "ColumnsBinned" and isinstance(refusal, DataError):
        assert repr(party) in str(refusal)
    else:
        assert isinstance(refusal, RemoteProtocolError)
        assert refusal.party == party


TRAINING_KINDS = [kind.__name__ for kind in replies_to(messages.REQUESTS)]


@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("kind", TRAINING_KINDS)
def test_a_mutated_training_reply_is_blamed_on_its_sender(kind: str, task: str) -> None:
    with little_memory():
        assert_survives_mutants(training_recording(task), kind, FEW // 8)


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("kind", TRAINING_KINDS)
def test_many_mutated_training_replies_are_blamed_on_their_sender(kind: str, task: str) -> None:
    with little_memory():
        assert_survives_mutants(training_recording(task), kind, MANY // 8)


@pytest.mark.parametrize(("kind", "pace"), PREDICTION_REPLIES)
def test_a_mutated_prediction_reply_is_blamed_on_its_sender(kind: str, pace: Pace) -> None:
    with little_memory():
        assert_survives_mutants(prediction_recording(pace), kind, FEW // 4)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "pace"), PREDICTION_REPLIES)
def test_many_mutated_prediction_replies_are_blamed_on_their_sender(kind: str, pace: Pace) -> None:
    with little_memory():
        assert_survives_mutants(prediction_recording(pace), kind, MANY // 4)


@dataclass
class Liar:
    """A transport that replaces one reply of one party and is honest ever after."""

    inner: Transport
    at: int
    change: Callable[[str, bytes], bytes]
    n_asked: int = 0

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        replies = self.inner.exchange(requests)
        if self.n_asked == self.at:
            replies = {party: self.change(party, data) for party, data in replies.items()}
        self.n_asked += 1
        return replies


def train_with_liar(task: str, at: int, seed: int) -> None:
    """One reply of one party is mutated; all parties are real and go on from there."""
    case = training_case(task)
    rng = np.random.default_rng([at, seed])
    liar = f"p{rng.integers(3)}"
    parties = make_parties(case)
    endpoints = {p: make_endpoint(party, messages.REQUESTS) for p, party in parties.items()}
    transport = Liar(
        InProcess(endpoints), at, lambda party, data: mutate(data, rng) if party == liar else data
    )
    trained = run(train(make_order(case, out_of_bag=True)), transport)
    values = trained.outline.leaves.value
    assert np.isfinite(values).all()
    assert np.isfinite(trained.outline.decrease).all()


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_a_lie_that_is_not_noticed_at_once_ends_in_a_forest_or_a_named_error(task: str) -> None:
    n_exchanges = len(training_recording(task).replies)
    n_finished = 0
    with little_memory():
        for k in range(LIVE):
            try:
                train_with_liar(task, at=k % n_exchanges, seed=k)
            except FederationError:
                continue
            n_finished += 1
    assert 0 < n_finished < LIVE


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_many_lies_end_in_a_forest_or_a_named_error(task: str) -> None:
    n_exchanges = len(training_recording(task).replies)
    with little_memory():
        for k in range(2000):
            try:
                train_with_liar(task, at=k % n_exchanges, seed=k)
            except FederationError:
                continue


def refuse(task: str, kind: type[Message], change: Callable[[Any], Message], reason: str) -> None:
    """A reply that is changed like this is blamed on its sender."""
    recording = training_recording(task)
    at, party, honest = recording.reply(kind)
    with pytest.raises(RemoteProtocolError, match=reason) as caught, little_memory(2**28):
        recording.replace(at, party, encode(change(honest)))
    assert caught.value.party == party


def changed(reply: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(reply, **fields)


def test_an_honest_replay_is_taken() -> None:
    for task in ("classes", "numbers"):
        recording = training_recording(task)
        for kind in replies_to(messages.REQUESTS):
            at, party, honest = recording.reply(kind)
            if at < len(recording.replies) - 1:
                with pytest.raises(Replaced):
                    recording.replace(at, party, encode(honest))
            else:
                recording.replace(at, party, encode(honest))


def test_a_table_of_absurdly_many_columns_is_refused_without_setting_memory_aside() -> None:
    size = TableSize(150, 2**31 - 1)
    refuse("classes", ColumnsBinned, lambda honest: changed(honest, size=size), "more columns")


def test_tables_of_different_length_are_refused_and_all_lengths_told() -> None:
    recording = training_recording("classes")
    at, party, honest = recording.reply(ColumnsBinned, 2)
    bad = changed(honest, size=TableSize(151, 1))
    with pytest.raises(DataError, match=f"{party!r} has 151"):
        recording.replace(at, party, encode(bad))


@pytest.mark.parametrize(
    ("task", "scale", "reason"),
    [
        ("classes", None, "no labels"),
        ("classes", LabelScale(2**31 - 1), "too many classes"),
        ("classes", LabelScale(0), "another task"),
        ("numbers", LabelScale(3), "another task"),
        ("numbers", LabelScale(0, 0.0, 0.0), "unit"),
        ("numbers", LabelScale(0, -1.0, 0.0), "unit"),
        ("numbers", LabelScale(0, np.nan, 0.0), "unit"),
        ("numbers", LabelScale(0, np.inf, 0.0), "unit"),
        ("numbers", LabelScale(0, 1e308, 0.0), "unit"),
        ("numbers", LabelScale(0, 1.0, np.nan), "origin"),
    ],
)
def test_labels_that_cannot_be_those_of_the_task_are_refused(
    task: str, scale: LabelScale | None, reason: str
) -> None:
    recording = training_recording(task)
    at, party, honest = recording.reply(ColumnsBinned, 1)  # p1 is the label party
    with pytest.raises(RemoteProtocolError, match=reason) as caught, little_memory(2**28):
        recording.replace(at, party, encode(changed(honest, scale=scale)))
    assert caught.value.party == "p1"


def test_labels_in_another_protection_than_asked_for_are_refused() -> None:
    refuse("classes", LabelsShared, lambda _: LabelsShared(), "not protected as the run demands")
    case = training_case("classes")
    order = make_order(case, response=RandomizedResponse(1.0))
    recording = RecordedReplies(lambda: train(order), training_recording("classes").replies)
    at, party, plain = recording.reply(LabelsShared)
    with pytest.raises(RemoteProtocolError, match="not protected"):
        recording.replace(at, party, encode(plain))


def test_malformed_labels_are_the_label_partys_fault_and_reach_nobody() -> None:
    def cut(honest: LabelsShared) -> LabelsShared:
        assert honest.labels is not None
        return LabelsShared(changed(honest.labels, codes=honest.labels.codes[:-1]))

    refuse("classes", LabelsShared, cut, "class codes")


def sums(*values: int) -> NodeSums:
    return NodeSums.of(np.array(values, np.int64))


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ((0, 90, 60, 60), "no rows"),
        ((90, 90, 61, 60), "more than the table"),
        ((90, 90, -1, 60), "no rows"),
        ((2**62, 90, 60, 60), "more than the table"),
        ((2**63 - 1, 90, -(2**63), 60), "no rows"),
        ((90, 90, 60), "node sums"),
    ],
)
def test_trees_of_impossible_size_are_refused_without_setting_memory_aside(
    sizes: tuple[int, ...], reason: str
) -> None:
    recording = training_recording("classes")
    at, party, honest = recording.reply(TreesStarted, 1)
    with pytest.raises(RemoteProtocolError, match=reason) as caught, little_memory(2**28):
        recording.replace(at, party, encode(changed(honest, root_sizes=sums(*sizes))))
    assert caught.value.party == "p1"


@pytest.mark.parametrize(
    ("root_sums", "reason"),
    [
        ((50, 50, -1, 50, 50, 50), "negative"),
        ((0, 0, 0, 50, 50, 50), "no weight"),
        ((2**62, 2**62, 2**62, 50, 50, 50), "more than there can be"),
        ((2**52, 2**52, 2**52, 50, 50, 50), "no weight"),
        ((50, 50, 50), "node sums"),
    ],
)
def test_sums_that_no_rows_have_are_refused(root_sums: tuple[int, ...], reason: str) -> None:
    recording = training_recording("classes")
    at, party, honest = recording.reply(TreesStarted, 1)
    hostile = NodeSums.of_columns(np.array(root_sums, np.int64).reshape(-1, 3))
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        recording.replace(at, party, encode(changed(honest, root_sums=hostile)))
    assert caught.value.party == "p1"


@pytest.mark.parametrize("gain", [np.nan, np.inf, 1e308, -1e308])
def test_gains_that_are_no_gains_are_refused(gain: float) -> None:
    refuse("classes", SplitsFound, lambda _: SplitsFound(Gains.of(np.full(2, gain))), "gain")


def test_gains_of_too_many_or_too_few_nodes_are_refused() -> None:
    for n_nodes in (0, 1, 3):
        replace = partial(changed, gains=Gains.of(np.ones(n_nodes)))
        refuse("classes", SplitsFound, replace, "gains")


def test_bits_that_leave_a_child_too_few_rows_are_refused() -> None:
    def all_right(honest: SplitsApplied) -> SplitsApplied:
        return changed(honest, bits=RowBits(memoryview(bytes(len(honest.bits.data)))))  # type: ignore[no-any-return]

    refuse("classes", SplitsApplied, all_right, "min_samples_leaf")


def test_children_that_weigh_too_little_are_refused() -> None:
    def light(honest: SplitsApplied) -> SplitsApplied:
        weights = np.zeros_like(read_left_sums(honest))
        weights[:, 0] = 1
        return changed(honest, left_sums=NodeSums.of_columns(weights))  # type: ignore[no-any-return]

    refuse("limited", SplitsApplied, light, "min_weight_fraction_leaf")


@pytest.mark.parametrize("task", ["numbers", "weighted"])
def test_children_whose_bits_give_them_too_little_weight_are_refused(task: str) -> None:
    def one_row_goes_left(honest: SplitsApplied) -> SplitsApplied:
        bits = np.zeros(len(honest.bits.data), np.uint8)
        bits[0] = 1
        return changed(honest, bits=RowBits.of(bits))  # type: ignore[no-any-return]

    recording = training_recording(f"{task}, one tree")
    at, party, honest = recording.reply(SplitsApplied)
    with pytest.raises(RemoteProtocolError, match="min_weight_fraction_leaf") as caught:
        recording.replace(at, party, encode(one_row_goes_left(honest)))
    assert caught.value.party == party


def test_sums_that_the_coordinator_adds_up_itself_are_refused_and_others_demanded() -> None:
    some = NodeSums.of_columns(np.ones((1, 3), np.int64))
    refuse("numbers", SplitsApplied, lambda h: changed(h, left_sums=some), "nobody asked for")
    refuse("classes", SplitsApplied, lambda h: changed(h, left_sums=None), "missing")


def test_trees_must_add_up_to_the_labels_that_were_given_out() -> None:
    recording = training_recording("numbers")
    at, party, honest = recording.reply(TreesStarted, 1)
    sums_of_trees = honest.root_sums.read_columns(2, 3)
    sums_of_trees[1, 1] += 1
    other = changed(honest, root_sums=NodeSums.of_columns(sums_of_trees))
    with pytest.raises(RemoteProtocolError, match="the sums of their labels") as caught:
        recording.replace(at, party, encode(other))
    assert caught.value.party == "p1"


def test_padding_bits_and_bits_of_the_wrong_length_are_refused() -> None:
    def all_ones(honest: SplitsApplied) -> SplitsApplied:
        return changed(honest, bits=RowBits(memoryview(b"\xff" * len(honest.bits.data))))  # type: ignore[no-any-return]

    refuse("classes", SplitsApplied, all_ones, "padded|min_samples_leaf")
    refuse("classes", SplitsApplied, lambda h: changed(h, bits=h.left_out_bits), "row bits")


def test_a_left_child_cannot_hold_more_than_its_parent() -> None:
    def more(honest: SplitsApplied) -> SplitsApplied:
        left_sums = NodeSums.of_columns(read_left_sums(honest) + 1000)
        return changed(honest, left_sums=left_sums)  # type: ignore[no-any-return]

    refuse("classes", SplitsApplied, more, "negative")


def read_left_sums(applied: SplitsApplied) -> NDArray[np.int64]:
    """The class weights of the left children, of however many nodes they are."""
    n_nodes = 1
    assert applied.left_sums is not None
    while True:
        try:
            return applied.left_sums.read_columns(n_nodes, 3)
        except FederationError:
            n_nodes += 1


@pytest.mark.parametrize("scores", [None, OutOfBagScores.of(np.ones(3))])
def test_missing_or_left_over_scores_are_refused(scores: OutOfBagScores | None) -> None:
    recording = training_recording("classes")
    at, party, _ = recording.reply(TreesFinished, 1)
    with pytest.raises(RemoteProtocolError, match="out-of-bag scores") as caught:
        recording.replace(at, party, encode(TreesFinished(scores)))
    assert caught.value.party == "p1"


@pytest.mark.parametrize(
    "votes", [None, OutOfBagVotes.of(np.ones(7)), OutOfBagVotes.of(np.full((150, 3), np.inf))]
)
def test_missing_or_impossible_votes_are_refused(votes: OutOfBagVotes | None) -> None:
    recording = training_recording("classes")
    at, party, honest = recording.reply(ColumnsWeighed, 1)
    with pytest.raises(RemoteProtocolError, match="out-of-bag vote") as caught:
        recording.replace(at, party, encode(ColumnsWeighed(honest.importances, votes)))
    assert caught.value.party == "p1"


@pytest.mark.parametrize("values", [[np.nan], [np.inf], [], [0.5, 0.5]])
def test_importances_that_are_none_are_refused(values: list[float]) -> None:
    bad = ColumnsWeighed(Importances.of(np.array(values)))
    refuse("classes", ColumnsWeighed, lambda _: bad, "importance")


def routed(outcomes: bytes, *n_bits: int) -> bytes:
    return encode(RowsRouted(Outcomes(memoryview(outcomes)), sums(*n_bits)))


@pytest.mark.parametrize(
    "bad",
    [
        routed(b"", 0, 0, 0),
        routed(b"\0", 1, 0, 0),
        routed(b"\0" * 400, 3200, 0, 0),
        routed(b"", 2**63 - 1, 2**63 - 1, 2**63 - 1),
        routed(b"", -1, 0, 0),
        routed(b"\0" * 3, 1, 1, 1),
        routed(b"", 0, 0),
    ],
)
@pytest.mark.parametrize("pace", [1, 2, 3, ONE_ROUND, SWEPT])
def test_outcomes_of_other_rows_are_refused(bad: bytes, pace: Pace) -> None:
    recording = prediction_recording(pace)
    at, party, _ = recording.reply(RowsRouted, 1)
    with pytest.raises(RemoteProtocolError, match=r"outcomes|node sums") as caught:
        recording.replace(at, party, bad)
    assert caught.value.party == party


@pytest.mark.parametrize("change", [lambda words: words[:-1], lambda words: words + bytes(8)])
@pytest.mark.parametrize(("kind", "pace"), [(RowsSwept, SWEPT), (RowsLeapt, LEAPT)])
def test_outcomes_of_more_or_fewer_splits_or_rows_are_refused(
    kind: Any, pace: Pace, change: Callable[[bytes], bytes]
) -> None:
    recording = prediction_recording(pace)
    at, party, honest = recording.reply(kind, 1)
    bad = kind(Outcomes(memoryview(change(bytes(honest.outcomes.data)))))
    with pytest.raises(RemoteProtocolError, match="outcomes") as caught:
        recording.replace(at, party, encode(bad))
    assert caught.value.party == party


def test_bit_counts_whose_sum_wraps_around_are_refused() -> None:
    """Sixteen counts that add up to nothing in 64 bits would lead far out of the outcomes."""
    training = train_openly(sample_case(parameters={"n_estimators": 17, "max_depth": 2}))
    predicted = predict_openly(training, ONE_ROUND)
    order = PredictionOrder(training.trained.outline, training.order.parties, 150, ONE_ROUND)
    recording = RecordedReplies(lambda: route(order), predicted.recorder.replies)
    at, party, _ = recording.reply(RowsRouted)
    counts = [2**63 - 8] * 16 + [8 * 16]
    assert sum((count + 7) >> 3 for count in counts) % 2**64 == 0
    with pytest.raises(RemoteProtocolError, match="outcomes"):
        recording.replace(at, party, routed(b"", *counts))


@pytest.mark.parametrize("outcome", [b"", b"\2", b"\xff", b"\0\0"])
def test_an_answer_to_a_single_split_is_one_bit(outcome: bytes) -> None:
    recording = prediction_recording(CLASSICAL)
    at, party, _ = recording.reply(SplitAsked)
    with pytest.raises(RemoteProtocolError, match="outcome") as caught:
        recording.replace(at, party, encode(SplitAsked(Outcomes(memoryview(outcome)))))
    assert caught.value.party == party


def test_a_coordinator_asks_nothing_after_it_refused() -> None:
    recording = training_recording("classes")
    at, party, _ = recording.reply(SplitsFound)
    replay = Replay(recording.replies, at, party, encode(SplitsFound(Gains.of(np.ones(1)))))
    conversation = recording.begin()
    with pytest.raises(RemoteProtocolError):
        run(conversation, replay)
    assert replay.n_asked == at + 1
    with pytest.raises(StopIteration):
        conversation.send({})


def test_questions_and_their_replies_have_known_types() -> None:
    conversation = training_recording("classes").begin()
    ask = next(conversation)
    assert isinstance(ask, Ask)
    assert {request.reply for request in ask.requests.values()} == {ColumnsBinned}
