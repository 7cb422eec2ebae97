"""Trees of a model: who owns which split, and what is behind it where the viewer may see it.

Of a vertical forest the coordinator tells shapes, owners and leaves (`ShowTree`). Columns and
thresholds are shown if every party lets them leave for a complete model, which the viewer asks for.
Every user of a horizontal forest has all of it.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from starlette.responses import JSONResponse, Response

from fedforest.reports.facts import SHORT_ID
from fedforest.reports.formats import format_number
from fedforest.reports.markup import Child, Markup, element
from fedforest.reports.trees import NodeText, list_nodes, list_owners, owners_of_columns
from fedforest.runtime.messages.orders import (
    Align,
    CompleteModel,
    PredictVertical,
    ShowRun,
    ShowTree,
    WatchRun,
)
from fedforest.runtime.messages.results import (
    HorizontalResult,
    ModelFile,
    Predictions,
    RunDetails,
    TreeOutline,
)
from fedforest.tree.files.forests import StoredForest, decode_forest
from fedforest.tree.forest.forest import LEAF
from fedforest.web.dashboard.layout import show_page
from fedforest.web.dashboard.visits import Refused, Visit

_MOST_OPEN = 4
_ALL = "all parties"


class OpenedForests:
    """Forests that users had opened lately, each for one user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], StoredForest] = OrderedDict()

    def find(self, user: str, run: str) -> StoredForest | None:
        """Return a forest that this user opened."""
        with self._lock:
            return self._kept.get((user, run))

    def keep(self, user: str, run: str, forest: StoredForest) -> StoredForest:
        """Keep a forest for the next tree that the user looks at."""
        with self._lock:
            self._kept[user, run] = forest
            while len(self._kept) > _MOST_OPEN:
                self._kept.popitem(last=False)
        return forest


def show_trees(visit: Visit) -> Response:
    """Show the page that a script draws a tree in."""
    run = visit.path("run")
    details: RunDetails = visit.site.door(visit).ask(ShowRun(run=run), RunDetails)
    protocol, name = details.state.protocol, details.state.name or run[:SHORT_ID]
    if protocol not in ("vertical", "horizontal") or details.state.state != "finished":
        raise Refused(404, "this run has no trees to look at")
    tree = max(1, _number(visit.query("tree"), 1))
    whole, row = visit.query("whole") == "1", visit.query("row")
    asked = f"?whole={int(whole)}" + (f"&row={_number(row, 1)}" if row.isdecimal() else "")
    parties = list(details.order["data"]) if protocol == "vertical" else [_ALL]
    lead = (
        "Each colour is the party whose column a split asks about. Names and thresholds stay with "
        "their owners."
        if protocol == "vertical" and not whole
        else "Each split with its column and threshold."
    )
    return show_page(
        visit,
        f"Trees of {name}",
        element(
            "section",
            _choose_tree(run, tree, details, whole=whole, row=row),
            list_owners(parties) if protocol == "vertical" else None,
            viewer(f"/runs/{run}/trees/{tree}{asked}"),
        ),
        lead=lead,
        trail=[("/runs", "Runs"), (f"/runs/{run}", name)],
    )


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else otherwise


def _choose_tree(run: str, tree: int, details: RunDetails, *, whole: bool, row: str) -> Markup:
    n_trees = details.n_trees or 1
    path = f"/runs/{run}/trees"
    kept = "&whole=1" if whole else ""
    box = element(
        "input", type="number", name="tree", id="tree", value=tree, min=1, max=n_trees, class_="few"
    )
    parts: list[Child] = [
        element("label", "Tree ", for_="tree"),
        box,
        f" of {n_trees:,} ",
        element("input", type="hidden", name="whole", value="1") if whole else None,
    ]
    if details.state.protocol == "vertical":
        number = element(
            "input", type="number", name="row", id="row", value=row, min=0, class_="few"
        )
        parts += [element("label", "Path of row ", for_="row"), number]
    parts.append(element("button", "Show", type="submit"))
    form = element("form", parts, method="get", action=path, class_="actions")
    ways: list[Child] = []
    if tree > 1:
        ways.append(
            element("a", "Previous tree", href=f"{path}?tree={tree - 1}{kept}", class_="button")
        )
    if tree < n_trees:
        ways.append(
            element("a", "Next tree", href=f"{path}?tree={tree + 1}{kept}", class_="button")
        )
    if details.state.protocol == "vertical" and not whole:
        ways.append(
            element(
                "a",
                "Ask for names and thresholds",
                href=f"{path}?tree={tree}&whole=1",
                class_="button",
            )
        )
    return element("div", form, ways, class_="actions")


def viewer(source: str) -> Markup:
    """Return a place that a script draws the tree of an address in."""
    tools = [
        element("button", label, type="button", data_tool=tool)
        for tool, label in (
            ("in", "Zoom in"),
            ("out", "Zoom out"),
            ("fit", "Whole tree"),
            ("open", "Open all"),
            ("close", "Close all"),
        )
    ]
    hint = "Drag to move, turn the wheel to zoom, press a split to open or close it."
    return element(
        "div",
        element(
            "div",
            element("div", tools, class_="actions", role="toolbar", aria_label="tree"),
            element("span", hint, class_="quiet"),
            class_="actions",
        ),
        element("div", element("p", "Drawing …"), class_="canvas"),
        data_tree=source,
    )


def send_tree(visit: Visit) -> Response:
    """Send a tree for the script that draws it."""
    run, tree = visit.path("run"), _number(visit.path("tree"), 0) - 1
    if tree < 0:
        raise Refused(404, "trees are numbered from 1")
    door = visit.site.door(visit)
    details: RunDetails = door.ask(ShowRun(run=run), RunDetails)
    whole = visit.query("whole") == "1"
    if details.state.protocol == "horizontal" or whole:
        stored = _open(visit, run, details.state.protocol)
        told = _tell_whole(stored, tree)
    else:
        told = _tell_outline(door.ask(ShowTree(model=run, tree=tree), TreeOutline), details.classes)
    row = visit.query("row")
    if row.isdecimal() and details.state.protocol == "vertical":
        told["path"] = _find_path(visit, details, tree, _number(row, 0), told["children"])
    return JSONResponse(told)


def _open(visit: Visit, run: str, protocol: str) -> StoredForest:
    """Return all of a forest. The coordinator is asked each time whether the user still may."""
    door, kept = visit.site.door(visit), visit.site.forests
    if visit.site.role_of(visit.user) not in ("scientist", "operator"):
        raise Refused(403, "your role may not have models")
    found: StoredForest | None = kept.find(visit.user, run)
    if found is not None:
        door.ask(ShowRun(run=run), RunDetails)
        return found
    if protocol == "horizontal":
        file = door.ask(WatchRun(run=run), HorizontalResult).file
    else:
        file = door.ask(CompleteModel(model=run), ModelFile).file
    opened: StoredForest = kept.keep(visit.user, run, decode_forest(file))
    return opened


def _tell_whole(stored: StoredForest, tree: int) -> dict[str, Any]:
    if tree >= stored.forest.shape.n_trees:
        raise Refused(404, f"there are {stored.forest.shape.n_trees} trees")
    texts = list_nodes(stored, tree, owners_of_columns(stored))
    return describe_nodes(stored.forest.shape.children_of(tree).tolist(), texts)


def _tell_outline(outline: TreeOutline, classes: Sequence[Any] | None) -> dict[str, Any]:
    children = np.frombuffer(outline.children, "<i4").tolist()
    owners = np.frombuffer(outline.owner, "<i2").tolist()
    labels = np.frombuffer(outline.label, "<i4").tolist()
    values = np.frombuffer(outline.value, "<f8").tolist()
    texts = []
    for child, owner, label, value in zip(children, owners, labels, values, strict=True):
        if child != LEAF:
            texts.append(NodeText(outline.parties[owner], "its own column", owner))
        elif not outline.has_leaves:
            texts.append(NodeText("leaf", "", None))
        elif label < 0:
            texts.append(NodeText(format_number(value), "", None))
        else:
            name = classes[label] if classes is not None and label < len(classes) else label
            texts.append(NodeText(f"{name} {value:.0%}", "", None))
    return describe_nodes(children, texts)


def describe_nodes(children: Sequence[int], texts: Sequence[NodeText]) -> dict[str, Any]:
    """Return a tree as the script that draws it reads it."""
    return {
        "children": list(children),
        "owners": [-1 if text.owner is None else text.owner % 6 for text in texts],
        "titles": [text.title for text in texts],
        "details": [text.detail for text in texts],
        "path": [],
    }


def _find_path(
    visit: Visit, details: RunDetails, tree: int, row: int, children: Sequence[int]
) -> list[int]:
    """Return the nodes from the root to the leaf of a row of the data sets of the run."""
    align = details.order.get("align", False)
    order = PredictVertical(
        data=details.order["data"],
        model=details.state.run,
        rows=None if align else [row],
        leaves=True,
        align=msgspec.convert(align, Align),
    )
    visit.require("predict")
    leaves = visit.site.door(visit).ask(order, Predictions).read()
    column = row if align else 0
    if column >= leaves.shape[1]:
        raise Refused(422, f"there are {leaves.shape[1]:,} rows")
    node = int(leaves[tree, column])
    above = {}
    for parent, child in enumerate(children):
        if child != LEAF:
            above[child] = above[child + 1] = parent
    path = [node]
    while path[-1] in above:
        path.append(above[path[-1]])
    return path[::-1]
