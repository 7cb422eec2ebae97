"""Trees of a complete forest as pictures: the upper levels, in the colours of who owns a split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedforest.reports.charts import N_COLOURS, shorten, svg, text
from fedforest.reports.formats import format_number
from fedforest.reports.markup import Markup, element
from fedforest.tree.files.forests import StoredForest, StoredPartial
from fedforest.tree.forest.forest import LEAF, Splits
from fedforest.tree.table.bins import Bins

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _LEVEL = 152.0, 44.0, 14.0, 84.0
_SCALE = 0.69  # so that four levels fit beside each other on a laptop


@dataclass
class DrawnNode:
    """A node with its two lines of text, and the children that are drawn."""

    title: str
    detail: str
    owner: int | None  # the number of the owner's colour; None for leaves
    children: "list[DrawnNode]" = field(default_factory=list)
    x: float = 0.0

    @property
    def n_leaves(self) -> int:
        return sum(child.n_leaves for child in self.children) or 1


def read_tree(
    stored: StoredForest, tree: int, owner_of: Mapping[int, int], n_levels: int = 3
) -> DrawnNode:
    """Return the upper levels of a tree; `owner_of` has the owner's number of each column."""
    start = int(stored.forest.shape.tree_start[tree])
    children = stored.forest.shape.children_of(tree)

    def read(node: int, level: int) -> DrawnNode:
        flat = start + node
        if children[node] == LEAF:
            return DrawnNode(_say_leaf(stored, flat), "", None)
        feature = int(stored.forest.splits.feature[flat])
        owner = owner_of.get(feature, 0)
        name, cut = (
            shorten(stored.bins.names[feature], 21),
            _say_cut(stored.forest.splits, stored.bins, flat, feature),
        )
        if level == n_levels:
            return DrawnNode(name, f"{cut}, and so on", owner)
        below = [read(int(children[node]) + side, level + 1) for side in (0, 1)]
        missing = "yes" if stored.forest.splits.missing_left[flat] else "no"
        return DrawnNode(name, f"{cut} · missing: {missing}", owner, below)

    return read(0, 0)


class NodeText(NamedTuple):
    """What a node of a tree is called, and whose split it is."""

    title: str
    detail: str
    owner: int | None  # None for leaves


def list_nodes(stored: StoredForest, tree: int, owner_of: Mapping[int, int]) -> list[NodeText]:
    """Return the texts of all nodes of a tree, in the order of its arrays."""
    start = int(stored.forest.shape.tree_start[tree])
    texts = []
    for node, child in enumerate(stored.forest.shape.children_of(tree).tolist()):
        flat = start + node
        if child == LEAF:
            texts.append(NodeText(_say_leaf(stored, flat), "", None))
            continue
        feature = int(stored.forest.splits.feature[flat])
        missing = "yes" if stored.forest.splits.missing_left[flat] else "no"
        detail = (
            f"{_say_cut(stored.forest.splits, stored.bins, flat, feature)} · missing: {missing}"
        )
        name = shorten(stored.bins.names[feature], 21)
        texts.append(NodeText(name, detail, owner_of.get(feature, 0)))
    return texts


def owners_of_columns(stored: StoredForest) -> dict[int, int]:
    """Return the number of the party of each column, in a forest that parties gave together."""
    counts = stored.metadata.get("columns_per_party")
    if not isinstance(counts, list):
        return {}
    owners = np.repeat(np.arange(len(counts)), counts)
    return dict(enumerate(owners.tolist()))


def list_own_nodes(stored: StoredPartial, tree: int) -> list[NodeText]:
    """Return the texts of a tree as one owner of columns knows it: its own splits."""
    splits, start = stored.partial.splits, int(stored.partial.shape.tree_start[tree])
    texts = []
    for node, child in enumerate(stored.partial.shape.children_of(tree).tolist()):
        feature = int(splits.feature[start + node])
        if child == LEAF:
            texts.append(NodeText("leaf", "", None))
        elif feature < 0:
            texts.append(NodeText("another party", "its own column", 1))
        else:
            name = shorten(stored.bins.names[feature], 21)
            cut = _say_cut(splits, stored.bins, start + node, feature)
            missing = "yes" if splits.missing_left[start + node] else "no"
            texts.append(NodeText(name, f"{cut} · missing: {missing}", 0))
    return texts


def _say_cut(splits: Splits, bins: Bins, node: int, feature: int) -> str:
    if splits.set_index[node] >= 0:
        return f"in {_say_set(splits, bins, node, feature)}"
    if splits.cut.dtype == np.float32:
        return f"≤ {format_number(float(splits.cut[node]))}"
    edges, cut = bins.edges(feature), int(splits.cut[node])
    # beyond the last edge all values go left: such a split is about missing ones
    return f"≤ {format_number(float(edges[cut]))}" if cut < len(edges) else "is there"


def _say_set(splits: Splits, bins: Bins, node: int, feature: int) -> str:
    words = splits.left_set[splits.set_index[node]].tolist()
    codes = [code for code in range(255) if int(words[code >> 6]) >> (code & 63) & 1]
    known = bins.categories(feature)
    names = [str(known[code]) for code in codes if code < len(known)]
    return shorten("{" + ", ".join(names) + "}", 18)


def _say_leaf(stored: StoredForest, node: int) -> str:
    leaves = stored.forest.leaves
    owned = slice(int(leaves.start[node]), int(leaves.start[node + 1]))
    values = leaves.value[owned]
    if stored.forest.n_classes == 0:
        return format_number(float(values[0]))
    best = int(np.argmax(values))
    label = int(leaves.label[owned][best])
    name = str(label if stored.classes is None else stored.classes.tolist()[label])
    return f"{shorten(name, 14)} {float(values[best]):.0%}"


def draw_tree(title: str, root: DrawnNode) -> Markup:
    """Return a picture of a tree, the root on top."""
    step = _BOX_WIDTH + _GAP
    _place(root, 0.0, step)
    drawn: list[Markup] = []
    depth = _draw(root, 0, drawn)
    width = root.n_leaves * step
    return element(
        "div",
        svg(title, width, (depth + 1) * _LEVEL - (_LEVEL - _BOX_HEIGHT) + 4.0, drawn, scale=_SCALE),
        class_="tree",
        tabindex=0,
        role="region",
        aria_label=title,
    )


def _place(node: DrawnNode, left: float, step: float) -> None:
    node.x = left + node.n_leaves * step / 2.0
    for child in node.children:
        _place(child, left, step)
        left += child.n_leaves * step


def _draw(node: DrawnNode, level: int, drawn: list[Markup]) -> int:
    y, deepest = level * _LEVEL + 2.0, level
    for side, child in zip(("yes", "no"), node.children, strict=False):
        ends = {"x1": f"{node.x:.1f}", "x2": f"{child.x:.1f}"}
        drawn.append(element("line", y1=y + _BOX_HEIGHT, y2=y + _LEVEL, class_="branch", **ends))
        middle = (node.x + child.x) / 2.0
        anchor = "end" if side == "yes" else "start"
        shift = -6.0 if side == "yes" else 6.0
        drawn.append(text(side, middle + shift, y + _BOX_HEIGHT + 18.0, "quiet", anchor))
        deepest = max(deepest, _draw(child, level + 1, drawn))
    kind = "leaf" if node.owner is None else f"split o{node.owner % N_COLOURS}"
    drawn.append(
        element(
            "rect",
            x=f"{node.x - _BOX_WIDTH / 2:.1f}",
            y=y,
            width=_BOX_WIDTH,
            height=_BOX_HEIGHT,
            rx=6,
            class_=kind,
        )
    )
    is_single = not node.detail
    drawn.append(text(node.title, node.x, y + (27.0 if is_single else 19.0), "node", "middle"))
    if node.detail:
        drawn.append(text(node.detail, node.x, y + 35.0, "small", "middle"))
    return deepest


def list_owners(parties: Sequence[str]) -> Markup:
    """Return the legend: a colour for each party."""
    items = [
        element("li", element("span", "", class_=f"key b{number % N_COLOURS}"), party)
        for number, party in enumerate(parties)
    ]
    return element("ul", items, class_="legend", aria_label="parties by colour")
