"""The outline of one tree, as a user may look at it: shape, owners of splits, leaves.

That is what the coordinator has of a vertical forest. Columns and thresholds stay with their
owners; leaves of encrypted labels stay with the label party.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.results import TreeOutline
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.forest.forest import LEAF
from fedforest.tree.forest.partial import ForestOutline


def outline_tree(model: CoordinatorModel, tree: int) -> TreeOutline:
    """Return the outline of one tree; raises `ConfigurationError` if there is no such tree."""
    outline = model.outline
    n_trees = outline.shape.n_trees
    if tree >= n_trees:
        raise ConfigurationError(f"the forest has {n_trees:,} trees; there is no tree {tree + 1:,}")
    start = int(outline.shape.tree_start[tree])
    children = outline.shape.children_of(tree)
    nodes = slice(start, start + len(children))
    label, value = _read_leaves(outline, start, children)
    return TreeOutline(
        tree=tree,
        n_trees=n_trees,
        parties=list(model.parties),
        children=children.astype("<i4").tobytes(),
        owner=outline.owner[nodes].astype("<i2").tobytes(),
        label=label.astype("<i4").tobytes(),
        value=value.astype("<f8").tobytes(),
        n_classes=outline.n_classes,
        has_leaves=outline.has_leaves,
    )


def _read_leaves(
    outline: ForestOutline, start: int, children: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return what each leaf predicts: the class and its fraction, or -1 and the number."""
    label, value = np.full(len(children), -1, np.int32), np.zeros(len(children))
    if not outline.has_leaves:
        return label, value
    leaves = outline.leaves
    for node in np.flatnonzero(children == LEAF):
        owned = slice(int(leaves.start[start + node]), int(leaves.start[start + node + 1]))
        values = leaves.value[owned]
        best = int(np.argmax(values))
        value[node] = values[best]
        if outline.n_classes:
            label[node] = leaves.label[owned][best]
    return label, value
