"""Parties of one process draw each row sample once, and get what each would have drawn alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.sampling import count_draws
from fedforest.tree import rows as row_module
from fedforest.tree.rows import NodeRows, Sampling, draw_rows
from fedforest.tree.seeds import derive_seeds
from fedforest.tree.shared_draws import SharedDraws
from fedforest.tree.targets import TrainingTargets, classification_targets
from fedforest.tree.workers import ALONE, Workers
from tests.estimators.vertical_samples import (
    N_ROWS,
    amounts,
    classifier,
    labels,
    numbers,
    regressor,
)

Drawn = tuple[NodeRows, NodeRows | None]


def entries_of(rows: NodeRows | None) -> list[list[int]]:
    assert rows is not None
    order = rows.order
    spans = zip(order.start.tolist(), order.stop.tolist(), strict=True)
    return [order.entries[start:stop].tolist() for start, stop in spans]


def same(one: Drawn, other: Drawn) -> bool:
    return all(entries_of(a) == entries_of(b) for a, b in zip(one, other, strict=True))


def some_targets(n_rows: int, weights: list[int] | None = None) -> TrainingTargets:
    given_weights = None if weights is None else np.array(weights, np.float64)
    return classification_targets(np.arange(n_rows) % 3, 3, given_weights)


@given(
    n_rows=st.integers(1, 40),
    n_trees=st.integers(1, 6),
    bootstrap=st.booleans(),
    n_sharers=st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=40)
def test_whoever_shares_gets_what_it_would_draw_alone(
    n_rows: int, n_trees: int, bootstrap: bool, n_sharers: int, data: st.DataObject
) -> None:
    weights = data.draw(st.none() | st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows))
    if weights is not None:
        weights[0] = 1  # a table without any weight is refused elsewhere
    targets = some_targets(n_rows, weights)
    seeds = derive_seeds(data.draw(st.integers(0, 2**32)), "rows", 0, n_trees)
    sampling = Sampling(bootstrap, data.draw(st.integers(1, n_rows)))
    alone = draw_rows(seeds, targets, sampling, ALONE, with_left_out=True)
    shared = SharedDraws(n_sharers)
    for _ in range(n_sharers + 1):  # one comes again, when all have been there
        together = draw_rows(seeds, targets, sampling, ALONE, with_left_out=True, shared=shared)
        assert same(alone, together)


def test_threads_that_share_get_what_they_would_draw_alone() -> None:
    targets, sampling = some_targets(3000), Sampling(bootstrap=True, n_draws=3000)
    seeds = derive_seeds(5, "rows", 0, 12)
    alone = draw_rows(seeds, targets, sampling, ALONE, with_left_out=True)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            shared, workers = SharedDraws(3), Workers(threads, 2)

            def draw(shared: SharedDraws = shared, workers: Workers = workers) -> Drawn:
                return draw_rows(
                    seeds, targets, sampling, workers, with_left_out=True, shared=shared
                )

            for drawing in [threads.submit(draw) for _ in range(3)]:
                assert same(alone, drawing.result(timeout=30))


@pytest.fixture
def n_drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many trees were drawn so far."""
    calls = [0]

    def counted(*arguments: Any) -> None:
        calls[0] += 1
        count_draws(*arguments)

    monkeypatch.setattr(row_module, "count_draws", counted)
    return lambda: calls[0]


def test_each_tree_is_drawn_once_for_all_and_then_forgotten(n_drawn: Callable[[], int]) -> None:
    targets, sampling = some_targets(50), Sampling(bootstrap=True, n_draws=50)
    seeds, shared = derive_seeds(5, "rows", 0, 4), SharedDraws(2)
    for expected in (4, 4, 8):
        draw_rows(seeds, targets, sampling, ALONE, shared=shared)
        assert n_drawn() == expected


def test_whoever_is_invited_later_is_waited_for_as_well(n_drawn: Callable[[], int]) -> None:
    targets, sampling = some_targets(50), Sampling(bootstrap=True, n_draws=50)
    seeds, shared = derive_seeds(5, "rows", 0, 4), SharedDraws(1)
    shared.invite()
    for expected in (4, 4, 8):
        draw_rows(seeds, targets, sampling, ALONE, shared=shared)
        assert n_drawn() == expected


def test_other_trees_and_other_samples_are_drawn_anew(n_drawn: Callable[[], int]) -> None:
    targets, shared = some_targets(50), SharedDraws(2)
    starts = [(0, 50), (4, 50), (4, 49), (0, 50)]
    for done, (first, n_draws) in enumerate(starts):
        seeds = derive_seeds(5, "rows", first, first + 4)
        draw_rows(seeds, targets, Sampling(bootstrap=True, n_draws=n_draws), ALONE, shared=shared)
        assert n_drawn() == 4 * (done + 1)


def test_coordinator_and_parties_of_one_process_draw_each_tree_once_batch_after_batch(
    n_drawn: Callable[[], int],
) -> None:
    for done, make in enumerate((classifier, regressor), start=1):
        forest = make(parties=3, n_jobs=1)
        forest._batch_bytes = 2 * N_ROWS * 2 * 4  # two trees
        table = numbers()
        forest.fit(table, labels(table) if make is classifier else amounts(table))
        assert len(forest.n_steps_) == 3
        assert n_drawn() == 6 * done
