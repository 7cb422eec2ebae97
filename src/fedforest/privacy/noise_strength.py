"""Noise beside the counts that it hides: whether a forest can learn under it, known beforehand.

Nothing here depends on values or labels: only on the noise, and on how many rows, classes, parties,
candidates, levels and trees there are. A cut of a node at level l of n rows has about n / 2^l rows
on a side, and a class as many as its share of them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.queries import Queries

LARGEST_EPSILON = 64.0  # that advice names; beyond, there is hardly any protection
LABEL_SENSITIVITY = 2.0  # a label that changes moves one from a class to another


@dataclass(frozen=True, slots=True)
class NoisyGrowth:
    """The size of a training under noise; without classes, of numbers."""

    n_rows: float  # that a tree sees, of all its parties
    n_parties: int
    n_classes: int
    min_rows_leaf: int
    queries: Queries

    @property
    def n_levels(self) -> int:
        """Levels of cuts: those allowed, but no more than halving the rows makes."""
        smallest = 2.0 * max(1, self.min_rows_leaf)
        halvings = max(1, math.ceil(math.log2(max(2.0, 2.0 * self.n_rows / smallest))))
        return halvings if self.queries.levels is None else min(self.queries.levels, halvings)

    def rows_beside(self, level: int) -> float:
        """Rows on one side of a cut at this level, which counts from one."""
        return max(float(self.min_rows_leaf), self.n_rows / 2.0**level)

    def count_beside(self, level: int) -> float:
        """Rows of a class there; numbers are as uncertain as two classes."""
        return self.rows_beside(level) / max(2, self.n_classes)


def deviation_of_noise(noise: LocalDP | GlobalDP, growth: NoisyGrowth, level: int) -> float:
    """Return the standard deviation of the noise on the count of a class beside a cut."""
    if isinstance(noise, LocalDP):
        code = noise.resolve(max(2, growth.n_classes))
        rate, contrast = code.rate_if_clear, code.keep * (code.p - code.q)
        of_a_row = math.sqrt(rate * (1.0 - rate) / code.hashes) / contrast
        return of_a_row * math.sqrt(growth.rows_beside(level))
    scale = LABEL_SENSITIVITY / noise.resolve(growth.queries)
    return math.sqrt(2.0 * growth.n_parties) * scale


def noise_to_count(noise: LocalDP | GlobalDP, growth: NoisyGrowth, level: int) -> float:
    """Return the noise in units of the count that it hides."""
    return deviation_of_noise(noise, growth, level) / growth.count_beside(level)


def describe_excess(noise: LocalDP | GlobalDP, growth: NoisyGrowth) -> str | None:
    """Say from which level on noise exceeds counts, and what to change; None if it does not."""
    levels = range(1, growth.n_levels + 1)
    drowned = next((n for n in levels if noise_to_count(noise, growth, n) > 1.0), None)
    if drowned is None:
        return None
    deviation = deviation_of_noise(noise, growth, drowned)
    advice = "; or ".join(_advise(noise, growth)) or "gather more rows, or allow a larger epsilon"
    return (
        f"{noise!r}: from level {drowned} of {growth.n_levels} on, noise exceeds what it hides: "
        f"the count of a class beside a cut is about {growth.count_beside(drowned):,.0f} there, "
        f"and the noise on it has a standard deviation of {deviation:,.0f}. Such cuts are chosen "
        f"by chance. One of these helps: {advice}."
    )


def _advise(noise: LocalDP | GlobalDP, growth: NoisyGrowth) -> Iterator[str]:
    for depth in range(growth.n_levels - 1, 0, -1):
        queries = replace(growth.queries, levels=depth)
        if _is_clear(noise, replace(growth, queries=queries)):
            yield f"max_depth={depth}"
            break
    rows = growth.min_rows_leaf
    while rows < growth.n_rows / 4:
        rows = math.ceil(1.5 * rows)
        if _is_clear(noise, replace(growth, min_rows_leaf=rows)):
            yield f"min_samples_leaf={rows}"
            break
    trees = growth.queries.trees
    if isinstance(noise, GlobalDP) and noise.epsilon is not None:
        while trees > 1:
            trees //= 2
            queries = replace(growth.queries, trees=trees)
            if _is_clear(noise, replace(growth, queries=queries)):
                yield f"n_estimators={trees}"
                break
    name = "epsilon" if noise.epsilon is not None else "epsilon_query"
    epsilon: float | None = getattr(noise, name, None)
    while epsilon is not None and epsilon < LARGEST_EPSILON:
        epsilon = math.ceil(12.5 * epsilon) / 10  # steps of a quarter
        changed: LocalDP | GlobalDP = replace(noise, **{name: epsilon})  # type: ignore[arg-type] # both have a name
        if _is_clear(changed, growth):
            yield f"{name}={epsilon:g}"
            break


def _is_clear(noise: LocalDP | GlobalDP, growth: NoisyGrowth) -> bool:
    return noise_to_count(noise, growth, growth.n_levels) <= 1.0
