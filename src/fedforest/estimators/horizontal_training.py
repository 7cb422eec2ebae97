"""One horizontal training with all parties in this process.

Temporary: rows are put together and the pooled engine grows the forest, so that everything around
the training can be used; the protocol between parties takes this module's place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.estimators.class_weights import weigh_classes
from fedforest.estimators.horizontal_model import HorizontalModel
from fedforest.estimators.horizontal_options import HorizontalOptions
from fedforest.estimators.horizontal_tables import PartyRows
from fedforest.estimators.pooled import PooledExtraTrees
from fedforest.estimators.validation import draw_seed
from fedforest.privacy.composition import (
    PrivacySpending,
    spend_global,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries
from fedforest.runtime.driver import ExchangeLog
from fedforest.tree.class_union import find_codes, merge_classes
from fedforest.tree.columns import CategoryColumn, Column
from fedforest.tree.decreases import spread_decreases
from fedforest.tree.table import Table
from fedforest.tree.workers import Workers


def train_in_process(
    parties: Mapping[str, PartyRows],
    options: HorizontalOptions,
    seed: int | None,
    workers: Workers,
    log: ExchangeLog,  # noqa: ARG001 - nothing is exchanged yet
) -> tuple[HorizontalModel, PrivacySpending]:
    """Train over the rows of all parties; with a seed, the parties' entropy comes from it, too."""
    pooled = PooledExtraTrees(random_state=draw_seed(seed), **asdict(options.parameters))
    table = _join([part.table for part in parties.values()])
    labels, classes = _join_labels(parties, options)
    weights = _join_weights(parties, options, labels, classes)
    columns = pooled._prepare(table, workers)
    forest = pooled._grow(columns, pooled._read_targets(labels, weights, table.n_rows), workers)
    depth = options.parameters.max_depth or int(forest.shape.depths().max(initial=0))
    rules = options.parameters.growth_rules(table.n_rows, table.n_features)
    queries = Queries(rules.features_per_node, depth, forest.shape.n_trees)
    spending = _spend(options, queries, len(classes) if classes is not None else 0)
    model = HorizontalModel(spread_decreases(forest), pooled.bins_, classes, tuple(parties))
    return model, spending


def _join(tables: Sequence[Table]) -> Table:
    columns = tuple(map(_join_columns, zip(*(table.columns for table in tables), strict=True)))
    n_rows = sum(table.n_rows for table in tables)
    return Table(tables[0].names, columns, n_rows, tables[0].has_names)


def _join_columns(parts: Sequence[Column]) -> Column:
    if not any(isinstance(part, CategoryColumn) for part in parts):
        return np.concatenate(parts)  # type: ignore[arg-type] # none is categorical
    code_of: dict[Any, int] = {}
    codes = []
    for part in parts:
        assert isinstance(part, CategoryColumn)
        places = [code_of.setdefault(value, len(code_of)) for value in part.values]
        codes.append(np.array([*places, -1], np.int32)[part.codes])
    return CategoryColumn(np.concatenate(codes), tuple(code_of))


def _join_labels(
    parties: Mapping[str, PartyRows], options: HorizontalOptions
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    if options.is_regression:
        return np.concatenate([part.labels for part in parties.values()]), None
    own = {party: part.encode() for party, part in parties.items()}
    classes = merge_classes({party: declared for party, (declared, _) in own.items()})
    labels = [classes[find_codes(declared, classes)[codes]] for declared, codes in own.values()]
    return np.concatenate(labels), classes


def _join_weights(
    parties: Mapping[str, PartyRows],
    options: HorizontalOptions,
    labels: NDArray[Any],
    classes: NDArray[Any] | None,
) -> NDArray[np.float64] | None:
    given = [part.weights for part in parties.values() if part.weights is not None]
    weights = np.concatenate(given) if given else None
    if classes is None or options.class_weight is None:
        return weights
    weights = np.ones(len(labels)) if weights is None else weights
    codes = np.searchsorted(classes, labels)
    by_class = weigh_classes(options.class_weight, classes)
    if by_class is None or isinstance(by_class, str):
        totals = np.bincount(codes, weights, len(classes))
        by_class = totals.sum() / (len(classes) * np.maximum(totals, 1e-300))
    return weights * by_class[codes]


def _spend(options: HorizontalOptions, queries: Queries, n_classes: int) -> PrivacySpending:
    if isinstance(options.privacy, LocalDP):
        return spend_local(options.privacy.resolve(n_classes), queries)
    if isinstance(options.privacy, GlobalDP):
        epsilon = options.privacy.resolve(queries)
        return spend_global(epsilon, queries, is_regression=options.is_regression)
    return spend_nothing_private(queries)
