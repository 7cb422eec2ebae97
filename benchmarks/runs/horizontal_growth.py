"""How the cost of Federated Extra-Trees grows: one quantity varies, the others stay.

Seconds, and bytes of all levels in both directions, with sums sent as they are and under masks.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

from benchmarks.contestants import RowFederation
from benchmarks.measure import timed
from benchmarks.tasks import SEED, ForestSettings, Split, make_split

MODES = ("plain", "masked")
WARM_UP_ROWS = 500


@dataclass(frozen=True)
class Scene:
    """A training; four fifths of the rows are trained on. `k` is how many peers a mask has."""

    n_rows: int = 100_000
    n_parties: int = 2
    n_trees: int = 20
    max_depth: int = 8
    k: int | None = None

    def split(self) -> Split:
        return make_split("binary", self.n_rows)

    def build(self, mode: str) -> RowFederation:
        settings = ForestSettings("binary", self.n_trees, self.max_depth)
        protection: dict[str, Any] = {}
        if mode == "masked":
            protection["aggregation"] = import_module("fedforest").Masked(k=self.k)
        return RowFederation(settings, SEED, self.n_parties, **protection)


BASE = Scene()
MANY = Scene(n_parties=20)


def _vary(base: Scene, quantity: str, values: Sequence[int]) -> tuple[Scene, ...]:
    return tuple(replace(base, **{quantity: value}) for value in values)


# Series -> the quantity that varies, and its scenes.
SERIES = {
    "parties": ("n_parties", _vary(BASE, "n_parties", (2, 3, 5, 10, 20, 50))),
    "rows": ("n_rows", _vary(BASE, "n_rows", (12_500, 25_000, 50_000, 100_000, 200_000, 400_000))),
    "depth": ("max_depth", _vary(BASE, "max_depth", (2, 4, 6, 8, 10, 12, 14, 16))),
    "peers": ("k", _vary(MANY, "k", (1, 2, 4, 8, 16, 19))),
}


def shrink(scenes: Sequence[Scene]) -> list[Scene]:
    """The first and the last scene, small enough for a test."""
    return [
        replace(
            scene,
            n_rows=min(scene.n_rows, 2_000),
            n_trees=min(scene.n_trees, 4),
            max_depth=min(scene.max_depth, 5),
        )
        for scene in (scenes[0], scenes[-1])
    ]


def measure_growth(scene: Scene, repeats: int) -> dict[str, Any]:
    """Seconds of each repeat in turns, and what travelled, for plain and for masked sums."""
    split = scene.split()
    costs: dict[str, dict[str, Any]] = {mode: {"wall": [], "cpu": []} for mode in MODES}
    for mode in MODES:
        scene.build(mode).fit(split.X_train[:WARM_UP_ROWS], split.y_train[:WARM_UP_ROWS])
    for _ in range(repeats):
        for mode, cost in costs.items():
            forest = scene.build(mode)
            _, spent = timed(lambda: forest.fit(split.X_train, split.y_train))  # noqa: B023 - at once
            cost["wall"].append(spent.wall)
            cost["cpu"].append(spent.cpu)
            cost.update(measure_traffic(forest))
    return {**asdict(scene), "modes": costs}


def measure_traffic(forest: RowFederation) -> dict[str, int]:
    """Exchanges of the training, and bytes of its levels in both directions."""
    return {
        "exchanges": forest.forest.n_exchanges_,
        "level_bytes": sum(step.n_bytes for step in forest.forest.fit_log_),
    }
