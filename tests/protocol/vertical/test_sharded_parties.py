"""Parties whose rows lie in shards train the same forest, whatever is lost on the way."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedforest.errors import ShardsLost
from fedforest.tree.shards.sharded_rows import ShardedRows
from fedforest.tree.table.pieces import TableSource
from tests.estimators.vertical_samples import few_trees
from tests.protocol.vertical.cases import (
    VerticalCase,
    class_weighted_cases,
    sample_case,
    whole_file,
)
from tests.tree.shards.engines import EngineHere

pytestmark = few_trees  # drawn cases grow one or a few


@contextmanager
def in_shards(
    n_shards: int, rows_gathered: int, losses: Collection[int] = ()
) -> Iterator[list[EngineHere]]:
    """All parties of this process keep their rows in shards; yields their engines."""
    engines: list[EngineHere] = []

    def make_engine() -> EngineHere:
        engines.append(EngineHere(n_shards, losses))
        return engines[-1]

    def make_rows(table: TableSource) -> ShardedRows:
        return ShardedRows(make_engine, table, rows_gathered)

    where = "fedforest.estimators.vertical.training.opened_cluster"
    with patch(where, lambda _: nullcontext(make_rows)):
        yield engines


DRAWN = (
    class_weighted_cases(),
    st.integers(1, 5),
    st.sampled_from([0, 20, 2**15]),
    st.sets(st.integers(1, 60), max_size=3),
)
DRAW = settings(suppress_health_check=[HealthCheck.too_slow])


def check_shards(case: VerticalCase, n_shards: int, rows_gathered: int, losses: set[int]) -> None:
    """The forest grown in shards has the bytes and the out-of-bag votes of the one grown here."""
    expected = case.vertical()
    with in_shards(n_shards, rows_gathered, losses):
        sharded = case.vertical()
    assert whole_file(sharded) == whole_file(expected)
    if case.parameters.get("oob_score"):
        name = "oob_prediction_" if case.is_regression else "oob_decision_function_"
        assert getattr(sharded, name).tobytes() == getattr(expected, name).tobytes()


@pytest.mark.slow
@settings(DRAW, max_examples=15)
@given(*DRAWN)
def test_a_forest_grown_in_shards_is_the_forest_of_the_table(
    case: VerticalCase, n_shards: int, rows_gathered: int, losses: set[int]
) -> None:
    check_shards(case, n_shards, rows_gathered, losses)


@pytest.mark.exhaustive
@settings(DRAW, max_examples=1000)
@given(*DRAWN)
def test_a_forest_grown_in_any_shards_is_the_forest_of_the_table(
    case: VerticalCase, n_shards: int, rows_gathered: int, losses: set[int]
) -> None:
    check_shards(case, n_shards, rows_gathered, losses)


def test_nodes_of_few_rows_are_searched_in_one_shard() -> None:
    case = sample_case(parameters={"n_estimators": 4})
    calls: dict[int, int] = {}
    for rows_gathered in (0, 30, 2**15):
        with in_shards(3, rows_gathered) as engines:
            assert whole_file(case.vertical()) == whole_file(case.vertical())
        calls[rows_gathered] = sum(engine.n_by_method["fill"] for engine in engines)
    assert calls[0] > calls[30] > calls[2**15] == 0


def test_shards_that_are_lost_again_and_again_end_the_training_with_an_error() -> None:
    with in_shards(2, 20, range(1, 10_000)), pytest.raises(ShardsLost, match="workers"):
        sample_case(parameters={"n_estimators": 1}).vertical()
