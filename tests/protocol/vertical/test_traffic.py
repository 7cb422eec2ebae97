"""How often parties are asked, and how much travels: two exchanges per level, gains and bits."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fedforest.estimators.progress.fit_log import describe_steps
from fedforest.protocol.vertical.order import EarlyStopping
from tests.protocol.vertical.cases import VerticalCase, sample_case, vertical_cases
from tests.protocol.vertical.conversations import (
    ONE_ROUND,
    OpenTraining,
    depths_of_leaves,
    predict_openly,
    train_openly,
)

AROUND_A_RUN = 4  # prepare, share labels, take labels; weigh columns
AROUND_A_BATCH = 2  # start and finish


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(vertical_cases(max_rows=130))
def test_a_level_of_all_trees_costs_two_exchanges(case: VerticalCase) -> None:
    training = train_openly(case)
    n_steps = training.trained.n_steps
    n_around = AROUND_A_RUN + AROUND_A_BATCH * len(n_steps)
    assert len(training.log.exchanges) <= 2 * sum(n_steps) + n_around
    names = Counter(exchange.request for exchange in training.log.exchanges)
    assert names["FindSplits"] == sum(n_steps)
    assert names["ApplySplits"] <= sum(n_steps)


def test_out_of_bag_votes_and_dropped_trees_cost_no_exchange_of_their_own() -> None:
    plain, voting = train_openly(sample_case()), train_openly(sample_case(), out_of_bag=True)
    assert len(plain.log.exchanges) == 2 * sum(plain.trained.n_steps) + 6
    assert len(voting.log.exchanges) == 2 * sum(voting.trained.n_steps) + 6
    stopping = EarlyStopping(patience=3, tolerance=1.0)
    case = sample_case(parameters={"n_estimators": 30})
    stopped = train_openly(case, out_of_bag=True, early_stopping=stopping)
    n_batches = len(stopped.trained.n_steps)
    assert stopped.trained.outline.shape.n_trees < 3 * n_batches  # some trees were dropped
    n_around = AROUND_A_RUN + AROUND_A_BATCH * n_batches
    assert len(stopped.log.exchanges) == 2 * sum(stopped.trained.n_steps) + n_around


def test_steps_are_levels_and_those_that_only_try_further_columns() -> None:
    training = train_openly(sample_case())
    trained = training.trained
    depth = int(trained.outline.shape.depths().max())
    assert [a - b for a, b in zip(trained.n_steps, trained.n_extra_steps, strict=True)] == [depth]


def train_task(n_classes: int, max_depth: int | None, *, weighted: bool = False) -> OpenTraining:
    """Every tree trains on all rows, so that rows can be counted from the finished forest."""
    rng = np.random.default_rng(1)
    n_rows, n_columns = 3000, 40
    X = rng.standard_normal((n_rows, n_columns))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(n_rows)
    if n_classes:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    weights = rng.uniform(0.5, 1.5, n_rows) if weighted else None
    columns = {f"c{k}": X[:, k] for k in range(n_columns)}
    parameters = {"n_estimators": 10, "max_depth": max_depth, "bootstrap": False}
    return train_openly(VerticalCase(columns, y, weights, parameters, (20, 20)))


def rows_split_per_level(training: OpenTraining) -> list[int]:
    """Rows that go left or right at each level."""
    depth_of_row = depths_of_leaves(training, predict_openly(training, ONE_ROUND).leaf_of)
    n_levels = sum(training.trained.n_steps)
    return [int(np.sum(np.array(depth_of_row) > level)) for level in range(n_levels)]


def needed_bytes(training: OpenTraining, rows: list[int]) -> list[float]:
    """Per level: a gain and candidates for every party and open node, a bit per row and party.

    One party says the bits at their own level; the others hear them at the next one.
    """
    shares = training.case.shares
    per_node = sum(8 + (n_columns + 7) // 8 for n_columns in shares)
    nodes = [step.open_nodes for step in describe_steps(training.log)]
    said, heard = rows, [0, *rows[:-1]]
    return [
        per_node * n_open + said[level] / 8 + (len(shares) - 1) * heard[level] / 8
        for level, n_open in enumerate(nodes)
    ]


def assert_little_more_travels(training: OpenTraining, needed: list[float]) -> None:
    """Over all levels, and at each of them beside the envelopes of its messages."""
    sent = [step.n_bytes for step in describe_steps(training.log)]
    assert sum(sent) <= 1.2 * sum(needed)
    envelopes = 4 * len(training.case.shares) * 32  # requests and replies of two exchanges
    for level, n_bytes in enumerate(sent):
        assert n_bytes <= 1.2 * needed[level] + envelopes, level


KINDS = [
    *((n_classes, False) for n_classes in (2, 3, 6, 7, 20)),
    *((n_classes, True) for n_classes in (2, 3, 6)),
    *((0, weighted) for weighted in (False, True)),  # numbers
]


@pytest.mark.parametrize("max_depth", [3, 6, 9, None])
@pytest.mark.parametrize(("n_classes", "weighted"), KINDS)
def test_little_more_travels_than_gains_candidates_and_one_bit_per_row_and_party(
    n_classes: int, weighted: bool, max_depth: int | None
) -> None:
    training = train_task(n_classes, max_depth, weighted=weighted)
    assert_little_more_travels(training, needed_bytes(training, rows_split_per_level(training)))


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("max_depth", [3, 6, 9])
def test_counts_of_few_classes_travel_in_place_of_the_bits_of_the_last_level(
    n_classes: int, max_depth: int
) -> None:
    training = train_task(n_classes, max_depth)
    *rows, _ = rows_split_per_level(training)
    assert_little_more_travels(training, needed_bytes(training, [*rows, 0]))


def last_level_bytes(n_classes: int, max_depth: int) -> tuple[int, int]:
    """What the winners of the last level said, and the bits of its rows."""
    training = train_task(n_classes, max_depth)
    last = [log for log in training.log.exchanges if log.request == "ApplySplits"][-1]
    return sum(last.bytes_from.values()), rows_split_per_level(training)[-1] // 8


@pytest.mark.parametrize("n_classes", [0, 20])
def test_at_the_depth_limit_long_sums_travel_unless_bits_are_shorter(n_classes: int) -> None:
    said, bits = last_level_bytes(n_classes, max_depth=2)
    assert said < bits / 4
    said, bits = last_level_bytes(n_classes, max_depth=10)
    assert bits <= said < 2 * bits  # bits of a node begin a byte
