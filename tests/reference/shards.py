"""What shards say of their rows, in Python integers: histograms, ranges, copies and draws."""

from collections.abc import Callable, Sequence

from tests.reference import draws
from tests.reference.splits import Row, Sums, add

N_BINS = 256
Rows = Sequence[int]
Range = tuple[int, int]  # the least and the largest target


def histogram(
    rows: Sequence[Row], feature: int, of_row: Callable[[Row], Sums], width: int
) -> list[Sums]:
    """The sums of every bin, `width` numbers each."""
    bins = [(0,) * width] * N_BINS
    for row in rows:
        bins[row.bins[feature]] = add(bins[row.bins[feature]], of_row(row))
    return bins


def target_range(targets: Sequence[int], nothing: Range) -> Range:
    """The range of some rows' targets, or `nothing` if there are no rows."""
    return (min(targets), max(targets)) if targets else nothing


def is_pure(targets: Sequence[int]) -> bool:
    """Whether all are equal."""
    return len(set(targets)) <= 1


def take_rows(bins: Sequence[Sequence[int]], nodes: Sequence[Rows]) -> list[list[int]]:
    """The bins of every column at the rows of the nodes, node by node."""
    return [[column[row] for node in nodes for row in node] for column in bins]


def count_draws_within(key: int, n_draws: int, n_table: int, first: int, n_kept: int) -> list[int]:
    """How often each row of a shard comes in a sample of the whole table."""
    return draws.count_draws(key, n_draws, n_table)[first : first + n_kept]
