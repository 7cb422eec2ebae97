"""Labels in the forms in which they leave their owner, and what is computed from them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, ProtocolError
from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.kernels.prediction.walk import Leaves
from fedforest.privacy.randomized_response import LEAST_EPSILON, RandomizedResponse
from fedforest.protocol.payloads import EncodedLabels
from fedforest.protocol.vertical.labels import (
    ClassLabels,
    LabelSource,
    TargetValues,
    debias_leaves,
    draw_codes,
    read_criterion,
    read_labels,
)
from fedforest.protocol.vertical.messages import (
    BinColumns,
    ColumnsBinned,
    LabelsShared,
    ShareLabels,
    SplitsApplied,
    TakeLabels,
)
from fedforest.protocol.vertical.order import EarlyStopping
from fedforest.protocol.vertical.party import VerticalParty
from fedforest.transport.codec import decode, encode
from fedforest.tree.table.frames import read_table
from fedforest.tree.table.targets import classification_targets, fix_weights, regression_targets
from tests.protocol.vertical.cases import sample_case
from tests.protocol.vertical.conversations import OpenTraining, fixed_randomness, train_openly

CLASSES = np.array([2, 0, 1, 1, 0, 2, 2, 0])
WEIGHTS = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 2.5, 4.0])
CODES = (1, 2, 0)


def give_out(labels: ClassLabels | TargetValues, request: ShareLabels) -> EncodedLabels:
    shared, _ = labels.share(request, fixed_randomness)
    given_out = shared.labels or shared.noisy_labels
    assert given_out is not None
    return given_out


def codes_of(labels: EncodedLabels) -> list[int]:
    return [int(code) for code in np.frombuffer(labels.codes, np.uint8)]


def test_classes_leave_under_the_codes_asked_for() -> None:
    labels = give_out(ClassLabels(CLASSES, 3), ShareLabels(CODES))
    assert codes_of(labels) == [CODES[number] for number in CLASSES]
    assert len(labels.weights) == len(labels.levels) == 0


@given(st.integers(0, 2**63), st.integers(0, 40))
def test_codes_are_a_permutation_that_the_seed_decides(seed: int, n_classes: int) -> None:
    codes = draw_codes(seed, n_classes)
    assert sorted(codes) == list(range(n_classes))
    assert codes == draw_codes(seed, n_classes)


def test_different_seeds_hide_classes_under_different_codes() -> None:
    assert len({draw_codes(seed, 5) for seed in range(100)}) > 50


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_labels_arrive_as_the_targets_that_one_table_would_have(
    weights: NDArray[np.float64] | None,
) -> None:
    labels = give_out(ClassLabels(CLASSES, 3, weights), ShareLabels(CODES))
    read = read_labels(TakeLabels(3, "gini", labels), len(CLASSES))
    expected = classification_targets(np.array(CODES)[CLASSES], 3, weights)
    assert read.kind == expected.kind
    assert read.classes.tolist() == expected.classes.tolist()
    assert read.kernel.weights.tolist() == expected.kernel.weights.tolist()


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_targets_arrive_as_integers_in_units_that_only_the_coordinator_hears_of(
    weights: NDArray[np.float64] | None,
) -> None:
    values = np.array([1.5, -3.0, 2.25, 9.0, 0.0, 4.0, 4.0, 1.0])
    source = TargetValues(values, weights)
    labels = give_out(source, ShareLabels(()))
    read = read_labels(TakeLabels(0, "variance", labels), len(values))
    expected = regression_targets(values, weights)
    assert read.kernel.levels.tolist() == expected.kernel.levels.tolist()
    assert read.kernel.values.tolist() == expected.kernel.values.tolist()
    assert read.kind.target_unit == 1.0
    scale = source.scale()
    assert (scale.target_unit, scale.target_offset) == (
        expected.kind.target_unit,
        expected.kind.target_offset,
    )


@pytest.mark.parametrize("n_rows", [1, 10, 1_000_000])
@pytest.mark.parametrize("largest", [1e-300, 1.0, 1e300])
def test_honest_weights_and_targets_of_any_size_pass_the_check_for_overflow(
    n_rows: int, largest: float
) -> None:
    values = np.linspace(-largest, largest, n_rows)
    weights = np.linspace(largest / 2, largest, n_rows)
    labels = give_out(TargetValues(values, weights), ShareLabels(()))
    read_labels(TakeLabels(0, "variance", labels), n_rows)
    classes = ClassLabels(np.zeros(n_rows, np.int64), 1, weights)
    read_labels(TakeLabels(1, "gini", give_out(classes, ShareLabels((0,)))), n_rows)


NOISY = ShareLabels((0, 1, 2), 0.5)


def test_where_a_criterion_counts_from_zero_targets_leave_counted_from_zero() -> None:
    values = np.array([0.0, 2.0, 1.0, 0.0, 8.0])
    source = TargetValues(values).scored_by(BY_NAME["poisson"])
    labels, scale = give_out(source, ShareLabels(())), source.scale()
    read = read_labels(TakeLabels(0, "poisson", labels), len(values))
    assert scale.target_offset == 0.0
    assert (read.kernel.levels * scale.target_unit).tolist() == values.tolist()
    assert read.kind.criterion is BY_NAME["poisson"]


@pytest.mark.parametrize(
    ("values", "weights", "reason"),
    [
        ([0.0, 3.5, -1.25], None, "some are negative"),
        ([0.0, 0.0], None, "all are zero"),
        ([0.0, 7.75], [1.0, 0.0], "all are zero"),
    ],
)
def test_the_label_party_refuses_targets_that_cannot_be_counted_and_says_none_of_them(
    values: list[float], weights: list[float] | None, reason: str
) -> None:
    given = None if weights is None else np.array(weights)
    labels = TargetValues(np.array(values), given)
    table = read_table({"x": np.arange(len(values), dtype=float)})
    party = VerticalParty(table, fixed_randomness, labels=labels)
    with pytest.raises(ConfigurationError, match=reason) as refused:
        party.handle(BinColumns(0, 255, "poisson"))
    assert not any(str(value) in str(refused.value) for value in values if value)
    prepared = party.handle(BinColumns(0, 255, "variance"))
    assert isinstance(prepared, ColumnsBinned)
    assert prepared.scale is not None


def test_targets_that_are_not_counted_from_zero_are_refused_on_arrival() -> None:
    for values in (np.array([-1.0, 1.0]), np.zeros(2)):
        labels = give_out(TargetValues(values), ShareLabels(()))
        with pytest.raises(ProtocolError, match="not counted from zero"):
            read_labels(TakeLabels(0, "poisson", labels), 2)


def test_a_criterion_that_is_unknown_or_of_another_task_is_refused_before_labels_are_told() -> None:
    sources: tuple[tuple[LabelSource, str], ...] = (
        (TargetValues(np.arange(3.0)), "gini"),
        (ClassLabels(CLASSES, 3), "poisson"),
    )
    for labels, wrong in sources:
        with pytest.raises(ProtocolError, match="another task"):
            labels.scored_by(BY_NAME[wrong])
    with pytest.raises(ProtocolError, match="unknown"):
        read_criterion("luck")


def test_noisy_labels_leave_as_noisy_labels_and_never_beside_the_true_ones() -> None:
    shared, key = ClassLabels(CLASSES, 3).share(NOISY, fixed_randomness)
    assert shared.labels is None
    assert shared.noisy_labels is not None
    expected = RandomizedResponse(0.5).draw(CLASSES, 3, fixed_randomness)
    assert codes_of(shared.noisy_labels) == expected.tolist() != CLASSES.tolist()
    assert key.answers.tolist() == expected.tolist()
    assert isinstance(decode(encode(shared), (LabelsShared,)), LabelsShared)


@pytest.mark.parametrize("class_weights", [np.array([1.0, 7.0, 3.0]), "balanced"])
@pytest.mark.parametrize("row_weights", [None, WEIGHTS])
def test_class_weights_follow_the_noisy_label_and_so_do_not_tell_the_true_one(
    class_weights: Any, row_weights: NDArray[np.float64] | None
) -> None:
    labels = give_out(ClassLabels(CLASSES, 3, row_weights, class_weights), NOISY)
    noisy = np.array(codes_of(labels))
    per_class = class_weights
    if isinstance(class_weights, str):
        per_class = len(noisy) / (3 * np.maximum(1, np.bincount(noisy, minlength=3)))
    rows = np.ones(len(noisy)) if row_weights is None else row_weights
    expected = fix_weights(rows * per_class[noisy])[0]
    assert np.frombuffer(labels.weights, np.int64).tolist() == expected.tolist()


def test_without_class_weights_noisy_labels_have_the_weights_of_the_rows_alone() -> None:
    assert len(give_out(ClassLabels(CLASSES, 3), NOISY).weights) == 0


def train_noisily(epsilon: float = 1.0, **changes: Any) -> OpenTraining:
    case = sample_case(parameters={"n_estimators": 6}, **changes)
    return train_openly(case, response=RandomizedResponse(epsilon), out_of_bag=True)


def noisy_labels_of(training: OpenTraining) -> NDArray[np.uint16]:
    case = training.case
    return RandomizedResponse(1.0).draw(case.y, 3, fixed_randomness)


def test_the_out_of_bag_score_compares_with_noisy_labels_and_corrects_for_the_noise() -> None:
    training = train_noisily()
    votes, curve = training.trained.out_of_bag_votes, training.trained.out_of_bag_curve
    assert votes is not None
    assert curve is not None
    seen = ~np.isnan(votes[:, 0])
    agreement = (votes[seen].argmax(axis=1) == noisy_labels_of(training)[seen]).mean()
    expected = RandomizedResponse(1.0).debias(np.array([agreement]), 3)[0]
    assert curve[-1] == expected
    assert agreement != (votes[seen].argmax(axis=1) == training.case.y[seen]).mean()


def test_true_labels_are_nowhere_in_the_transcript_of_a_noisy_run() -> None:
    training = train_noisily()
    true, noisy = training.case.y.astype(np.uint8), noisy_labels_of(training).astype(np.uint8)
    codes = np.array(draw_codes(training.case.seed, 3), np.uint8)
    transcript = training.recorder.everything()
    assert codes[noisy].tobytes() in transcript  # the search can find what is there
    assert codes[true].tobytes() not in transcript
    assert true.tobytes() not in transcript


@pytest.mark.parametrize("epsilon", [LEAST_EPSILON, 0.1, 1.0, 20.0])
def test_leaves_of_a_noisy_run_are_shares_of_classes(epsilon: float) -> None:
    assert_shares(train_noisily(epsilon).trained.outline.leaves, n_classes=3)


def test_a_coordinator_that_adds_up_weights_itself_adds_up_those_of_noisy_labels() -> None:
    plain, weighted = (train_noisily(weights=weights) for weights in (None, np.full(150, 2.0)))
    said = [
        decode(reply, (SplitsApplied,))
        for replies in weighted.recorder.replies
        for reply in replies.values()
        if b"SplitsApplied" in reply[:20]
    ]
    assert said
    assert all(reply.left_sums is None for reply in said)
    leaves, others = plain.trained.outline.leaves, weighted.trained.outline.leaves
    assert leaves.value.tolist() == others.value.tolist()
    assert leaves.label.tolist() == others.label.tolist()


def assert_shares(leaves: Leaves, n_classes: int) -> None:
    assert (leaves.value > 0.0).all()
    assert (leaves.label < n_classes).all()
    counts = np.diff(leaves.start)
    leaf = np.repeat(np.arange(len(counts)), counts)
    totals = np.bincount(leaf, leaves.value, minlength=len(counts))
    assert np.allclose(totals[counts > 0], 1.0, atol=1e-12)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=8),
    st.floats(LEAST_EPSILON, 30.0),
)
def test_corrected_leaves_stay_shares_of_classes_and_inner_nodes_stay_empty(
    counts: list[list[int]], epsilon: float
) -> None:
    """A node without any count stands for an inner node."""
    table = np.array(counts, np.float64)
    totals = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros_like(table), where=totals > 0)
    node, label = np.nonzero(shares)
    n_entries = np.bincount(node, minlength=len(table))
    leaves = Leaves(
        np.concatenate([[0], np.cumsum(n_entries)]), label.astype(np.uint16), shares[node, label]
    )
    response = RandomizedResponse(epsilon)
    corrected = debias_leaves(leaves, response, 4)
    assert_shares(corrected, 4)
    assert ((np.diff(corrected.start) > 0) == (n_entries > 0)).all()
    for row in np.flatnonzero(n_entries):
        first, last = corrected.start[row : row + 2]
        said = np.zeros(4)
        said[corrected.label[first:last]] = corrected.value[first:last]
        clipped = np.maximum(response.debias(shares[row], 4), 0.0)
        assert np.allclose(said, clipped / clipped.sum())


def test_growing_stops_when_the_curve_has_been_flat_for_long_enough() -> None:
    stopping = EarlyStopping(patience=3, tolerance=0.01)
    assert stopping.stop_after([0.5, 0.6, 0.605, 0.6]) is None
    assert stopping.stop_after([0.5, 0.6, 0.605, 0.6, 0.609, 0.9]) == 5
    assert stopping.stop_after([np.nan, np.nan, np.nan]) == 3
    assert stopping.stop_after([]) is None


def test_early_stopping_drops_the_trees_after_the_stop_everywhere() -> None:
    case = sample_case(parameters={"n_estimators": 30}, y=np.arange(150) % 3)
    training = train_openly(case, early_stopping=EarlyStopping(4, 0.05), out_of_bag=True)
    curve = training.trained.out_of_bag_curve
    assert curve is not None
    n_trees = EarlyStopping(4, 0.05).stop_after(curve.tolist())
    assert n_trees == len(curve) == training.trained.outline.shape.n_trees < 30
    for model in training.models().values():
        assert model.partial.shape.n_trees == n_trees
    fixed = sample_case(parameters={"n_estimators": n_trees}, y=case.y)
    same = train_openly(fixed, out_of_bag=True).trained
    assert same.outline.leaves.value.tobytes() == training.trained.outline.leaves.value.tobytes()
    assert same.out_of_bag_votes is not None
    assert training.trained.out_of_bag_votes is not None
    assert same.out_of_bag_votes.tobytes() == training.trained.out_of_bag_votes.tobytes()
