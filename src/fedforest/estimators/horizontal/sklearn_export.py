"""A forest with thresholds on raw values as a genuine scikit-learn ensemble.

Predictions are the same. Other fields of scikit-learn's trees are filled without row counts, which
could be used to reconstruct rows: every leaf counts as one row, an inner node as the mean of the
leaves below it, and impurities reproduce the importances of columns tree by tree and nothing finer.
Leaf values stay exact: without them predictions would differ.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree

from fedforest.errors import ConfigurationError
from fedforest.tree.forest.decreases import spread_decreases
from fedforest.tree.forest.forest import LEAF, Forest
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.frames import list_names

_NO_SPLIT = -2  # scikit-learn's feature and threshold of a leaf
_DEFAULTS: Mapping[str, Any] = MappingProxyType({})


class _TreePart(NamedTuple):
    """One tree of a forest; node numbers count from its root."""

    left: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    decrease: NDArray[np.float64]
    leaf_value: NDArray[np.float64]  # (nodes, classes), zero where a node is no leaf

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        return np.equal(self.left, LEAF)


def to_sklearn(
    forest: Forest,
    bins: Bins,
    classes: NDArray[Any] | None = None,
    *,
    voting: str = "soft",
    parameters: Mapping[str, Any] = _DEFAULTS,
) -> ExtraTreesClassifier | ExtraTreesRegressor:
    """Return a fitted `ExtraTreesClassifier`, or `ExtraTreesRegressor` without classes.

    `parameters` are those of the ensemble, for whoever wants to train it again. Raises
    `ConfigurationError` where columns are categorical: scikit-learn's trees know numbers only.
    """
    _check_numeric(forest, bins)
    kind = ExtraTreesRegressor if classes is None else ExtraTreesClassifier
    ensemble = kind(**{**parameters, "n_estimators": forest.shape.n_trees})
    ensemble.n_features_in_ = forest.n_features
    ensemble.n_outputs_ = 1
    if bins.has_names:
        ensemble.feature_names_in_ = np.array(bins.names, dtype=object)
    if classes is not None:
        ensemble.classes_ = classes.copy()
        ensemble.n_classes_ = len(classes)
    ensemble.estimator_ = ExtraTreeRegressor() if classes is None else ExtraTreeClassifier()
    discreet = spread_decreases(forest)
    trees = (
        _take_tree(discreet, number, hard=voting == "hard")
        for number in range(ensemble.n_estimators)
    )
    ensemble.estimators_ = [_make_estimator(ensemble, tree) for tree in trees]
    return ensemble


def _check_numeric(forest: Forest, bins: Bins) -> None:
    categorical = [name for name, c in zip(bins.names, bins.is_categorical, strict=True) if c]
    if categorical:
        raise ConfigurationError(
            f"scikit-learn's trees cannot split categories, but these columns are categorical: "
            f"{list_names(categorical)}. Encode them as numbers before training, at all parties "
            "in the same way (for example with OneHotEncoder(categories=...)), and export that "
            "forest."
        )
    if forest.splits.cut.dtype != np.float32 and (forest.splits.feature >= 0).any():
        raise ConfigurationError(
            "The forest splits bins, not values; only extra-trees can be exported."
        )


def _take_tree(forest: Forest, number: int, *, hard: bool) -> _TreePart:
    first, last = forest.shape.tree_start[number], forest.shape.tree_start[number + 1]
    splits, leaves = forest.splits, forest.leaves
    starts = leaves.start[first : last + 1]
    entries = slice(starts[0], starts[-1])
    node = np.repeat(np.arange(last - first), np.diff(starts))
    value = np.zeros((last - first, max(1, forest.n_classes)))
    value[node, leaves.label[entries] if forest.n_classes else 0] = leaves.value[entries]
    left = forest.shape.left_child[first:last]
    if hard and forest.n_classes:
        favourite = value.argmax(axis=1)  # of equal shares the first, as in our votes
        value[:] = 0.0
        is_leaf = np.flatnonzero(left == LEAF)
        value[is_leaf, favourite[is_leaf]] = 1.0
    return _TreePart(
        left,
        splits.feature[first:last],
        splits.cut[first:last],
        splits.missing_left[first:last],
        forest.decrease[first:last],
        value,
    )


def _make_estimator(
    ensemble: ExtraTreesClassifier | ExtraTreesRegressor, part: _TreePart
) -> ExtraTreeClassifier | ExtraTreeRegressor:
    """Return one fitted tree as scikit-learn's ensembles hold it: its classes are numbers."""
    estimator = type(ensemble.estimator_)(
        **{name: getattr(ensemble, name) for name in ensemble.estimator_params}
    )
    n_classes = part.leaf_value.shape[1]
    estimator.n_features_in_ = ensemble.n_features_in_
    estimator.n_outputs_ = 1
    if isinstance(estimator, ExtraTreeClassifier):
        estimator.classes_ = np.arange(n_classes, dtype=np.float64)
        estimator.n_classes_ = n_classes
    levels = _list_levels(part.left)
    nodes, values = _describe_nodes(part, levels)
    tree = Tree(ensemble.n_features_in_, np.array([n_classes], np.intp), 1)
    tree.__setstate__(
        {"max_depth": len(levels), "node_count": len(nodes), "nodes": nodes, "values": values}
    )
    estimator.tree_ = tree
    return estimator


def _describe_nodes(
    part: _TreePart, levels: list[NDArray[np.int64]]
) -> tuple[NDArray[np.void], NDArray[np.float64]]:
    """scikit-learn's node records, and its values (nodes, 1, classes)."""
    n_leaves = _add_up(part.is_leaf.astype(np.int64), part.left, levels)
    impurity_left = _add_up(part.decrease, part.left, levels)
    nodes = np.zeros(len(part.left), NODE_DTYPE)
    is_leaf = part.is_leaf
    nodes["left_child"] = part.left
    nodes["right_child"] = np.where(is_leaf, LEAF, part.left + 1)
    nodes["feature"] = np.where(is_leaf, _NO_SPLIT, part.feature)
    nodes["threshold"] = np.where(is_leaf, _NO_SPLIT, part.threshold.astype(np.float64))
    nodes["missing_go_to_left"] = part.missing_left
    nodes["n_node_samples"] = n_leaves
    nodes["weighted_n_node_samples"] = n_leaves
    nodes["impurity"] = impurity_left / n_leaves
    values = _add_up(part.leaf_value, part.left, levels) / n_leaves[:, np.newaxis]
    return nodes, values[:, np.newaxis, :]


def _list_levels(left: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Return the inner nodes of each depth, from the root down."""
    levels: list[NDArray[np.int64]] = []
    nodes = np.zeros(1, np.int64)
    while True:
        inner = nodes[left[nodes] != LEAF]
        if len(inner) == 0:
            return levels
        levels.append(inner)
        nodes = np.concatenate([left[inner], left[inner] + 1]).astype(np.int64)


def _add_up(
    values: NDArray[Any], left: NDArray[np.int32], levels: list[NDArray[np.int64]]
) -> NDArray[Any]:
    """Add up a node and everything below it."""
    total = values.copy()
    for inner in reversed(levels):
        total[inner] += total[left[inner]] + total[left[inner] + 1]
    return total
