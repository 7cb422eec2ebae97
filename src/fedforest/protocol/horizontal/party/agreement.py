"""A party's checks of the coordinator's proposal, before it computes anything with it.

Scales, classes, noise and limits come from the coordinator. A wrong one could make sums overflow or
leave labels with less noise than the run claims, so every party checks the consequences itself. At
the end it compares the model with the agreement before it keeps the model.
"""

import math
from collections.abc import Sequence

import numpy as np

from fedforest.errors import (
    ConfigurationError,
    DamagedModelError,
    ModelFileError,
    ProtocolError,
)
from fedforest.kernels.layout import MAX_MULTIPLICITY
from fedforest.privacy.composition import (
    PrivacySpending,
    spend_local,
    spend_nothing_private,
)
from fedforest.privacy.global_dp import GlobalDP, choose_scale
from fedforest.privacy.queries import Queries
from fedforest.protocol.asking import check
from fedforest.protocol.horizontal.labels import SUM_LIMIT, PartyLabels, read_classes
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.protocol.horizontal.party.statistics import find_sensitivity, resolve_code
from fedforest.protocol.horizontal.payloads import CATEGORICAL, EMPTY, DeclaredColumns
from fedforest.protocol.horizontal.tables import Categories
from fedforest.tree.files.forests import OpenedForest, open_forest
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.class_labels import pack_labels
from fedforest.tree.table.columns import Category, is_canonical
from fedforest.tree.table.targets import MAX_CLASSES, WEIGHT_SUM_LIMIT


def check_agreement(agreed: AgreeOnTable, declared: DeclaredColumns, labels: PartyLabels) -> None:
    """Refuse a proposal that does not fit this party's rows or breaks its own promises."""
    check(agreed.names == declared.names, "the columns are not those of this party")
    check(len(agreed.categories) == len(agreed.names), "not one description for each column")
    own = iter(declared.categories)
    for kind, categories in zip(declared.kinds, agreed.categories, strict=True):
        _check_column(kind, next(own) if kind == CATEGORICAL else (), categories)
    try:
        _check_task(agreed, labels)
        _check_noise(agreed, labels)
    except (ConfigurationError, DamagedModelError) as error:
        raise ProtocolError.of("run.unusable", detail=error) from None
    _check_scales(agreed, labels)


def read_model(data: memoryview, agreed: AgreeOnTable) -> OpenedForest:
    """Open the finished forest; refuse one that is damaged or does not match the agreement."""
    try:
        model = open_forest(data)
    except ModelFileError as error:
        raise ProtocolError.of("model.unusable", detail=error) from None
    check(_is_of_table(model.bins, agreed), "the model is of another table")
    check(_has_classes(model, agreed), "the model is of other classes")
    # a run that ends early has fewer trees
    check(model.n_trees <= agreed.n_trees, "the model has more trees than agreed on")
    check(not model.has_bins, "the model splits by bins, not by thresholds")
    return model


def spending_of(agreed: AgreeOnTable, response_key: bytes = b"") -> PrivacySpending:
    """Return the most that one label spends in the proposed run."""
    levels = None if agreed.max_depth >= NO_DEPTH_LIMIT else agreed.max_depth
    queries = Queries(agreed.candidates_per_node, levels, agreed.n_trees)
    if agreed.protection.kind == "local":
        code = resolve_code(agreed)
        spending = spend_local(code, queries)
        return spending.under_key(code, response_key) if response_key else spending
    if agreed.protection.kind == "global":
        # without the tighter bound: a hostile proposal could make it compute for ever
        epsilon = agreed.protection.epsilon_query
        return PrivacySpending(mechanism="global", queries=queries, epsilon_query=epsilon)
    return spend_nothing_private(queries)


def _is_of_table(bins: Bins, agreed: AgreeOnTable) -> bool:
    """Return whether column names and category codes are those of the agreement."""
    categories = tuple(rule if isinstance(rule, tuple) else None for rule in bins.rules)
    return bins.names == agreed.names and categories == agreed.categories


def _has_classes(model: OpenedForest, agreed: AgreeOnTable) -> bool:
    if model.classes is None:
        return model.n_classes == len(agreed.classes) == 0
    agreed_on = {"dtype": agreed.class_dtype, "labels": list(agreed.classes)}
    return pack_labels(model.classes) == agreed_on


def _check_column(kind: int, own: Sequence[Category], categories: Categories) -> None:
    """Refuse a changed kind of column, and a list without one of this party's categories."""
    if kind != EMPTY:
        fits = (categories is not None) == (kind == CATEGORICAL)
        check(fits, "a column of numbers has categories, or one of categories has none")
    if categories is None:
        return
    check(len(set(categories)) == len(categories), "a category is repeated")
    check(all(map(is_canonical, categories)), "a category is not in its one form")
    check(set(own) <= set(categories), "a category of this party is left out")


def _check_task(agreed: AgreeOnTable, labels: PartyLabels) -> None:
    check(bool(agreed.classes) != labels.is_regression, "labels are of another task")
    check(len(agreed.classes) <= MAX_CLASSES, "there are too many classes")
    if agreed.classes:
        read_classes(agreed.class_dtype, agreed.classes)


def _check_noise(agreed: AgreeOnTable, labels: PartyLabels) -> None:
    """Refuse noise unless all rows weigh one and it covers every sum of labels that leaves."""
    protection = agreed.protection
    check(protection.kind in ("", "local", "global"), "noise of an unknown kind is demanded")
    if not protection.kind:
        return
    check(agreed.most_losses == 0, "trees with noise are to be begun anew, with new noise")
    weighs_one = agreed.weight_unit == 0.0 and labels.weights is None
    check(weighs_one, "noise covers rows of weight one, but rows are weighted")
    check(agreed.rows_apart or labels.is_regression, "noise would leave out the last class")
    if protection.kind == "local":
        resolve_code(agreed)
        return
    bounds = (protection.low, protection.high) if labels.is_regression else None
    privacy = GlobalDP(epsilon_query=protection.epsilon_query, target_bounds=bounds)
    privacy.check(is_regression=labels.is_regression)
    choose_scale(protection.epsilon_query, find_sensitivity(agreed))


def _check_scales(agreed: AgreeOnTable, labels: PartyLabels) -> None:
    """Refuse units so small that sums over this party's rows pass the agreed limits."""
    heaviest = float(MAX_MULTIPLICITY * len(labels.values))
    if labels.weights is not None:
        check(agreed.weight_unit > 0.0, "weights of this party are left out")
    if agreed.weight_unit != 0.0:
        check(_is_unit(agreed.weight_unit), "the unit of weights is none")
        check(agreed.rows_apart, "rows of different weight are not counted")
        weights = [1.0] if labels.weights is None else labels.weights
        heaviest *= max(1.0, _largest(weights) / agreed.weight_unit)
        check(heaviest <= WEIGHT_SUM_LIMIT, "the unit of weights is too small")
    check(math.isfinite(agreed.target_offset), "the origin of targets is none")
    check(_is_unit(agreed.target_unit), "the unit of targets is none")
    if labels.is_regression and not agreed.protection.kind:
        largest = max(1.0, _largest(labels.values) / agreed.target_unit)
        check(heaviest * largest <= SUM_LIMIT, "the unit of targets is too small")


def _is_unit(unit: float) -> bool:
    return 0.0 < unit < math.inf


def _largest(values: Sequence[float] | np.ndarray) -> float:
    """Return the largest magnitude; 0 for no values."""
    return float(np.abs(np.asarray(values)).max(initial=0.0))
