"""The plan of a prediction: how each exchange settles some levels, in the least estimated time.

The first levels can be *swept*, 64 rows at a time: many bits, little work. Below, rows can *leap*
four levels at a time, two bytes per row and party; or be *routed* with any lookahead, with as few
bits as there can be and more work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.leap import LEAP
from fedforest.kernels.prediction.sweep import MAX_SWEPT_LEVELS
from fedforest.protocol.network import Network
from fedforest.tree.forest.routes import OwnerRoutes

MAX_CHOSEN_LOOKAHEAD = 64  # the nodes within reach grow so fast that nothing larger would pay

# an inner node has more rows than a leaf of its level: so many times the square of the share that
# inner nodes are of the level, as forests grown out on six data sets show
ROWS_OF_INNER_NODES = 32

# processor seconds of one role, measured; only their proportions matter
SECONDS_PER_WORD = 3e-9  # sweeping: what a split does with 64 rows
SECONDS_PER_LANDING = 1.2e-9  # a row is put where its swept turns lead
SECONDS_PER_LEAP = 5e-9
SECONDS_PER_STEP = 5e-9  # a row is routed with a lookahead of one
SECONDS_PER_VISIT = 40e-9  # with a larger one: a node that the row can reach
SECONDS_TO_ROUTE = 1.5e-4  # joining what parties say of trees, each a number of bits of its own


class Manner(Enum):
    """The way in which an exchange settles levels."""

    SWEEP = auto()
    LEAP = auto()
    ROUTE = auto()


@dataclass(frozen=True, slots=True)
class Stage:
    """One exchange: its kind, and the number of levels that it settles."""

    manner: Manner
    n_levels: int


Plan = tuple[Stage, ...]
Amount = TypeVar("Amount", float, NDArray[np.float64])


def plan_lookahead(lookahead: int, depth: int) -> Plan:
    """Plan to route rows with one lookahead."""
    return (Stage(Manner.ROUTE, lookahead),) * -(-depth // lookahead)


def plan_for(
    network: Network, routes: OwnerRoutes, n_rows: int, most_levels: int = MAX_CHOSEN_LOOKAHEAD
) -> Plan:
    """Return the plan for so many rows with the least estimated time.

    No exchange settles more than `most_levels`.
    """
    estimate, depth = _Estimate(routes, n_rows, network), routes.depth
    leap, by_lookahead = estimate.leaps(), estimate.routes()[:, :most_levels]
    if most_levels < LEAP:
        leap = np.full_like(leap, np.inf)
    n_choices = by_lookahead.shape[1]
    cost = np.full(depth + max(LEAP, n_choices), np.inf)  # from a level on
    cost[depth:] = 0.0
    best = [Stage(Manner.LEAP, LEAP)] * depth
    for level in range(depth - 1, -1, -1):
        routed = by_lookahead[level] + cost[level + 1 : level + 1 + n_choices]
        lookahead = int(routed.argmin())
        cost[level] = leap[level] + cost[level + LEAP]
        if routed[lookahead] < cost[level]:
            cost[level] = routed[lookahead]
            best[level] = Stage(Manner.ROUTE, 1 + lookahead)
    most_swept = min(depth, MAX_SWEPT_LEVELS, most_levels)
    swept = [cost[n] + estimate.sweep(n) for n in range(most_swept + 1)]
    return tuple(_follow(int(np.argmin(swept)), best))


def _follow(n_swept: int, best: list[Stage]) -> Iterator[Stage]:
    """The stages from the roots to the deepest leaf."""
    level = n_swept
    if n_swept:
        yield Stage(Manner.SWEEP, n_swept)
    while level < len(best):
        yield best[level]
        level += best[level].n_levels


class _Estimate:
    """Seconds of exchanges, if all parties have as many splits."""

    def __init__(self, routes: OwnerRoutes, n_rows: int, network: Network) -> None:
        self._n_rows = float(n_rows)
        self._active = self._n_rows * _share_on_the_way(routes)
        self._inner_above = np.concatenate([[0], np.cumsum(routes.inner_per_level)])
        self._n_parties = max(1, len(routes.owners))
        self._network = network

    def sweep(self, n_levels: int) -> float:
        """Return the seconds of an exchange that sweeps the first levels; 0 without levels."""
        if not n_levels:
            return 0.0
        n_words = self._n_rows / 64 * float(self._inner_above[n_levels])
        landing = float(self._active[0])
        n_bits = 64 * n_words + self._n_parties * landing * n_levels
        work = n_words * SECONDS_PER_WORD + landing * SECONDS_PER_LANDING
        return self._exchange(n_bits, work)

    def leaps(self) -> NDArray[np.float64]:
        """Rows leap from each level."""
        active = self._active[:-1]
        n_bits = self._n_parties * active * (16 + LEAP)
        return self._exchange(n_bits, active * SECONDS_PER_LEAP)

    def routes(self) -> NDArray[np.float64]:
        """(levels, lookaheads from one on): rows are routed from a level.

        A lookahead beyond the deepest leaf costs no more than one to it.
        """
        depth = len(self._active) - 1
        ahead = np.arange(min(depth, MAX_CHOSEN_LOOKAHEAD))
        level = np.minimum(np.arange(depth)[:, None] + ahead, depth)
        # a row can reach both children of the nodes that others split
        growth = 2.0 - 1.0 / self._n_parties
        visits = np.cumsum(self._active[level] * growth**ahead, axis=1)
        n_turns = np.minimum(1 + ahead, depth - np.arange(depth)[:, None])
        n_bits = visits + self._n_parties * self._active[:-1, None] * n_turns
        work = visits * np.where(ahead == 0, SECONDS_PER_STEP, SECONDS_PER_VISIT)
        return self._exchange(n_bits, work + SECONDS_TO_ROUTE)

    def _exchange(self, n_bits: Amount, work: Amount) -> Amount:
        """Parties work at the same time, before or after the coordinator."""
        travel = self._network.latency_seconds + n_bits / 8 / self._network.bytes_per_second
        return travel + work * (1 + self._n_parties) / 2


def _share_on_the_way(routes: OwnerRoutes) -> NDArray[np.float64]:
    """Rows that are expected to reach an inner node of each level, summed over trees, per row."""
    inner = routes.inner_per_level.astype(np.float64)
    share = inner[1:] / np.maximum(2 * inner[:-1], 1.0)
    weight = ROWS_OF_INNER_NODES * share**3
    stay = weight / (weight + 1.0 - share)
    return np.cumprod(np.concatenate([inner[:1], stay]))
