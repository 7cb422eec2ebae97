"""A forest on one table, tree by tree and node by node, in plain Python.

It takes targets as the engine has quantised them, draws with the same seeds, and must give the very
same trees. Impurities are computed from their definitions, in floating point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedforest.tree.growth.level_loop import GrowthPlan
from fedforest.tree.growth.seeds import derive_seed
from fedforest.tree.table.targets import TrainingTargets
from tests.reference import draws
from tests.reference.splits import (
    Row,
    Split,
    Statistic,
    best_split,
    class_weights,
    deviance,
    moments,
)


@dataclass
class Node:
    """One node; a leaf has no split. `share` is its part of the tree's weight."""

    rows: list[Row]
    depth: int
    n_tried: int = 0
    split: Split | None = None
    left_child: int = -1
    decrease: float = 0.0


@dataclass
class Tree:
    """Nodes in the order of their numbers, and how often each row was drawn."""

    multiplicity: list[int]
    nodes: list[Node] = field(default_factory=list)

    def find_leaf(self, bins: Sequence[int]) -> int:
        """The number of the leaf that a row reaches."""
        number = 0
        while (split := self.nodes[number].split) is not None:
            is_right = not split.goes_left(bins)
            number = self.nodes[number].left_child + is_right
        return number


@dataclass(frozen=True)
class Table:
    """Bins by column and row, and which columns are categorical."""

    bins: Sequence[Sequence[int]]
    is_categorical: Sequence[bool]

    def row(self, index: int) -> list[int]:
        return [column[index] for column in self.bins]


class TreeGrower:
    """Grows one tree."""

    def __init__(
        self, table: Table, targets: TrainingTargets, plan: GrowthPlan, number: int
    ) -> None:
        self.table = table
        self.targets = targets
        self.rules = plan.rules
        self.search = statistic_of(targets)
        self.feature_seed = derive_seed(plan.seed, "features", number)
        self.tree = Tree(draw_multiplicity(targets, plan, derive_seed(plan.seed, "rows", number)))
        drawn = [row for row, times in enumerate(self.tree.multiplicity) if times]
        self.tree.nodes.append(Node([self.read_row(row) for row in drawn], depth=0))
        whole = weigh(self.tree.nodes[0].rows)
        self.least_weight = math.ceil(self.rules.min_weight_share * whole)

    def read_row(self, row: int) -> Row:
        kernel, times = self.targets.kernel, self.tree.multiplicity[row]
        weight = int(kernel.weights[row]) if len(kernel.weights) else 1
        label = int(self.targets.classes[row]) if len(self.targets.classes) else 0
        target = int(kernel.values[row]) if len(kernel.values) else weight * label
        return Row(self.table.row(row), times * weight, times * target, label)

    def grow(self) -> Tree:
        """Level by level; a node that found no split tries its next columns one step later."""
        open_nodes = [0] if self.may_split(self.tree.nodes[0]) else []
        while open_nodes:
            still_open: list[int] = []
            for number in open_nodes:
                still_open += self.step(number)
            open_nodes = still_open
        return self.tree

    def step(self, number: int) -> list[int]:
        """Try to split one node; returns the nodes that are open after it."""
        node, rules = self.tree.nodes[number], self.rules
        order = draws.order_columns(
            self.feature_seed, 0 if rules.sample_per_tree else number, len(self.table.bins)
        )
        candidates = order[node.n_tried : node.n_tried + rules.features_per_node]
        node.n_tried += rules.features_per_node
        split = best_split(
            node.rows,
            self.table.is_categorical,
            candidates,
            self.search,
            rules.min_rows_leaf,
            self.least_weight,
        )
        if split is None:
            has_more = node.n_tried < len(order) and not rules.sample_per_tree
            return [number] if has_more else []
        left = [row for row in node.rows if split.goes_left(row.bins)]
        right = [row for row in node.rows if not split.goes_left(row.bins)]
        decrease = self.weighted_decrease(node.rows, left, right)
        least = rules.min_impurity_decrease
        if self.targets.kind.is_regression:
            power = 1 if self.targets.kind.criterion.wire == "poisson" else 2
            least /= self.targets.kind.target_unit**power
        if decrease * (1.0 + 2.0**-52) < least:
            return []
        node.split, node.decrease = settle_missing_side(split, len(left), len(right)), decrease
        node.left_child = len(self.tree.nodes)
        self.tree.nodes += [Node(left, node.depth + 1), Node(right, node.depth + 1)]
        children = [node.left_child, node.left_child + 1]
        return [child for child in children if self.may_split(self.tree.nodes[child])]

    def may_split(self, node: Node) -> bool:
        rules = self.rules
        enough = len(node.rows) >= max(rules.min_rows_split, 2 * rules.min_rows_leaf)
        enough &= weigh(node.rows) >= 2 * self.least_weight
        return enough and node.depth < rules.max_depth and not self.is_pure(node.rows)

    def is_pure(self, rows: Sequence[Row]) -> bool:
        if self.targets.kind.is_regression:
            return len({row.target / row.weight for row in rows}) == 1
        return len({row.label for row in rows}) == 1

    def weighted_decrease(self, rows: list[Row], left: list[Row], right: list[Row]) -> float:
        """Impurity minus that of the children, in shares of the tree's weight."""
        total = weigh(self.tree.nodes[0].rows)
        children = sum(weigh(side) * impurity(side, self.targets) for side in (left, right))
        return (weigh(rows) * impurity(rows, self.targets) - children) / total


def grow_trees(
    table: Table, targets: TrainingTargets, plan: GrowthPlan, trees: range
) -> list[Tree]:
    return [TreeGrower(table, targets, plan, number).grow() for number in trees]


def statistic_of(targets: TrainingTargets) -> Statistic:
    if targets.kind.search == "classes":
        is_entropy = targets.kind.criterion.wire == "entropy"
        return class_weights(targets.kernel.n_classes, entropy=is_entropy)
    return deviance() if targets.kind.criterion.wire == "poisson" else moments()


def draw_multiplicity(targets: TrainingTargets, plan: GrowthPlan, seed: int) -> list[int]:
    """How often each row is drawn; rows without weight never."""
    n_rows, n_draws = targets.n_rows, plan.sampling.n_draws
    if plan.sampling.bootstrap:
        drawn = draws.count_draws(seed, n_draws, n_rows)
    else:
        drawn = draws.choose_rows(seed, n_draws, n_rows)
    allowed = targets.allowed.tolist()
    drawn = [times if allowed[row] else 0 for row, times in enumerate(drawn)]
    return drawn if any(drawn) else [int(is_allowed) for is_allowed in allowed]


def settle_missing_side(split: Split, n_left: int, n_right: int) -> Split:
    """Where a node saw no missing value, they go to the larger child."""
    if split.missing_left < 2:
        return split
    return Split(split.score, split.feature, split.cut, int(n_left > n_right), split.left_set)


def weigh(rows: Sequence[Row]) -> int:
    return sum(row.weight for row in rows)


def impurity(rows: Sequence[Row], targets: TrainingTargets) -> float:
    """Gini, entropy in bits, or in fixed-point units: their squares, half the mean deviance."""
    total = weigh(rows)
    if targets.kind.is_regression:
        real = [row.target / row.weight for row in rows]
        mean = sum(row.weight * x for row, x in zip(rows, real, strict=True)) / total
        if targets.kind.criterion.wire == "poisson":
            above = [(row.weight, x) for row, x in zip(rows, real, strict=True) if x > 0]
            return sum(weight * x * math.log(x / mean) for weight, x in above) / total
        return sum(row.weight * (x - mean) ** 2 for row, x in zip(rows, real, strict=True)) / total
    labels = {row.label for row in rows}
    shares = [weigh([row for row in rows if row.label == label]) / total for label in labels]
    if targets.kind.criterion.wire == "entropy":
        return -sum(share * math.log2(share) for share in shares)
    return 1.0 - sum(share * share for share in shares)


def leaf_entries(node: Node, targets: TrainingTargets) -> list[tuple[int, float]]:
    """What a leaf says: (class, share) of the classes it holds, or (0, mean)."""
    total = weigh(node.rows)
    if targets.kind.is_regression:
        mean = float(sum(row.target for row in node.rows)) / float(total)
        return [(0, targets.kind.target_offset + mean * targets.kind.target_unit)]
    return [
        (label, weigh([row for row in node.rows if row.label == label]) / total)
        for label in sorted({row.label for row in node.rows})
    ]


def left_out_leaves(tree: Tree, table: Table, targets: TrainingTargets) -> list[int]:
    """The leaf of every row that the tree could have drawn but did not, else -1."""
    allowed = targets.allowed.tolist()
    return [
        tree.find_leaf(table.row(row)) if times == 0 and allowed[row] else -1
        for row, times in enumerate(tree.multiplicity)
    ]


def pack_set(codes: frozenset[int]) -> list[int]:
    """A set of bins as four 64-bit words."""
    return [
        sum(1 << (code - 64 * word) for code in codes if code // 64 == word) for word in range(4)
    ]


def flatten(trees: Sequence[Tree], targets: TrainingTargets) -> dict[str, list[float]]:
    """The arrays of a forest, by name."""
    nodes = [node for tree in trees for node in tree.nodes]
    entries = [[] if node.split else leaf_entries(node, targets) for node in nodes]
    sets = [node.split.left_set if node.split else None for node in nodes]
    return {
        "tree_start": np.cumsum([0, *(len(tree.nodes) for tree in trees)]).tolist(),
        "left_child": [node.left_child for node in nodes],
        "feature": [node.split.feature if node.split else -1 for node in nodes],
        "cut": [node.split.cut if node.split else 0 for node in nodes],
        "missing_left": [node.split.missing_left if node.split else 0 for node in nodes],
        "set_index": [
            -1 if left is None else sum(s is not None for s in sets[:i])
            for i, left in enumerate(sets)
        ],
        "left_set": [word for left in sets if left is not None for word in pack_set(left)],
        "leaf_start": np.cumsum([0, *(len(leaf) for leaf in entries)]).tolist(),
        "leaf_label": []
        if targets.kind.is_regression
        else [label for leaf in entries for label, _ in leaf],
        "leaf_value": [value for leaf in entries for _, value in leaf],
    }
