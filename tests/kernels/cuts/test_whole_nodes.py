"""Sums of whole nodes, compared with asking every row."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.cuts.whole_nodes import weigh_classes, weigh_targets
from fedforest.kernels.layout import Targets
from tests.level_cases import AskedLevel, asked_levels
from tests.reference.random_cuts import add_up
from tests.strategies import IS_PLAIN_PYTHON, SEEDS

N_EXAMPLES = 20 if IS_PLAIN_PYTHON else 100
NOTHING = np.zeros(0, np.int64)


def choose_nodes(rng: np.random.Generator, n_nodes: int) -> NDArray[np.int64]:
    """Some of them, ascending."""
    return np.flatnonzero(rng.random(n_nodes) < 0.7)


@given(asked_levels(), SEEDS, st.integers(2, 13), st.booleans(), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_class_weights_are_those_of_all_rows_of_each_node(
    asked: AskedLevel, seed: int, n_classes: int, weighted: bool, rows_apart: bool
) -> None:
    rng = np.random.default_rng(seed)
    level, n_rows = asked.level, asked.level.n_rows
    classes = rng.integers(0, n_classes, n_rows)
    weights = rng.integers(1, 2**40, n_rows) if weighted else np.ones(n_rows, np.int64)
    nodes, width = choose_nodes(rng, len(level.nodes)), n_classes + rows_apart

    def of_row(row: int, times: int) -> tuple[int, ...]:
        weight = times * int(weights[row])
        return (*(weight * (label == classes[row]) for label in range(n_classes)), 1)[:width]

    sums, given_weights = np.zeros((len(nodes), width), np.int64), weights if weighted else NOTHING
    order = level.order(classes, np.uint64)
    weigh_classes(order, given_weights, nodes, n_classes, sums, 0, len(nodes))
    assert sums.tolist() == [
        list(add_up([of_row(*drawn) for drawn in rows_of(asked, node)], width)) for node in nodes
    ]


@given(asked_levels(), SEEDS, st.booleans(), st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_moments_are_those_of_all_rows_of_each_node(
    asked: AskedLevel, seed: int, weighted: bool, rows_apart: bool
) -> None:
    rng = np.random.default_rng(seed)
    level, n_rows = asked.level, asked.level.n_rows
    weights = rng.integers(1, 2**20, n_rows) if weighted else np.ones(n_rows, np.int64)
    levels = rng.integers(-(2**30), 2**30, n_rows)
    targets = Targets(0, weights if weighted else NOTHING, levels * weights, levels)
    nodes, width = choose_nodes(rng, len(level.nodes)), 2 + rows_apart

    def of_row(row: int, times: int) -> tuple[int, ...]:
        weight = times * int(weights[row])
        return (weight, weight * int(levels[row]), 1)[:width]

    sums = np.zeros((len(nodes), width), np.int64)
    weigh_targets(level.order(), targets, nodes, sums, 0, len(nodes))
    assert sums.tolist() == [
        list(add_up([of_row(*drawn) for drawn in rows_of(asked, node)], width)) for node in nodes
    ]


def rows_of(asked: AskedLevel, node: int) -> list[tuple[int, int]]:
    """The rows of a node, and how often each was drawn."""
    nodes = asked.level.nodes
    return list(zip(nodes.rows[node].tolist(), nodes.multiplicities[node].tolist(), strict=True))
