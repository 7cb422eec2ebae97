"""The boundary between a table in shards and the engine that keeps shards in its processes.

An engine keeps one object per shard, calls its methods one after the other, and may leave what
they return where it is: a handle stands for it, as an argument of further calls. It knows nothing
of trees. A second engine is a second class with these methods.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from fedforest.tree.table.pieces import TableSource

Handle: TypeAlias = Any  # of a result that may be in another process


class ShardEngine(Protocol):
    """Keeps the shards of one table; every method may raise `ShardsLost`."""

    @property
    def n_shards(self) -> int:
        """The number of shards."""

    def build(self, shard: int, table: TableSource, first_row: int, n_rows: int) -> None:
        """Make a shard of these rows, which are those from `first_row` on of `n_rows`.

        One that there is, or that was lost, is replaced.
        """

    def ask(self, shard: int, method: str, *arguments: Any) -> Handle:
        """Begin a call; handles may be arguments, or elements of lists that are."""

    def add(self, handles: Sequence[Handle]) -> Handle:
        """Begin to add up arrays of equal shape, two by two."""

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """Wait for results and return them.

        Raises `ShardsLost` with all shards that are gone, and the error of a call otherwise.
        """
