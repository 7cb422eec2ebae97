"""Calls to all shards of a table, repeated where a shard was lost.

A lost shard is built again from its source and gets its columns and labels again. Its rows are
where the moves of a batch of trees led them, so all shards begin the batch again and repeat what
changed them since: moves are known, nothing is searched again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fedforest.errors import ShardsLost
from fedforest.tree.shards.engine import ShardEngine
from fedforest.tree.table.pieces import TableSource

MOST_LOSSES = 8  # one after the other without a step in between

T = TypeVar("T")
Step = Callable[[ShardEngine], T]


class Shards:
    """The shards of one table on an engine, and what they need to be built again."""

    def __init__(self, engine: ShardEngine, tables: Sequence[TableSource]) -> None:
        """`tables` are consecutive rows of one table, a shard each."""
        self._engine, self._tables = engine, tables
        sizes = [table.n_rows for table in tables]
        self.first_rows = [sum(sizes[:shard]) for shard in range(len(sizes))]
        self.n_rows = sum(sizes)
        self._prepared: list[tuple[str, Callable[[int], tuple[Any, ...]]]] = []
        self._changes: dict[int, list[Step[Any]]] = {}  # of batches that grow, the beginning first
        self._ended: list[int] = []  # batches that shards still have
        self._build(range(len(tables)))

    @property
    def count(self) -> int:
        """The number of shards."""
        return len(self._tables)

    def spans(self) -> list[slice]:
        """Return the rows of each shard."""
        return [
            slice(first, first + table.n_rows)
            for first, table in zip(self.first_rows, self._tables, strict=True)
        ]

    def prepare(self, method: str, arguments_of: Callable[[int], tuple[Any, ...]]) -> None:
        """Give every shard what it keeps for all trees, in place of what it had."""

        def tell(engine: ShardEngine) -> None:
            engine.collect([engine.ask(s, method, *arguments_of(s)) for s in range(self.count)])

        self._changes = {}
        self.query(tell)
        others = [(name, known) for name, known in self._prepared if name != method]
        self._prepared = [*others, (method, arguments_of)]

    def begin(self, batch: int, step: Step[T]) -> T:
        """Begin a batch of trees, again if it had begun; shards drop those that have ended."""
        ended, self._ended = self._ended, []

        def drop(engine: ShardEngine) -> None:
            engine.collect([engine.ask(s, "forget", ended) for s in range(self.count)])

        if ended:
            self.query(drop)
        self._changes[batch] = []
        return self.change(batch, step)

    def change(self, batch: int, step: Step[T]) -> T:
        """Take a step that changes shards."""
        result = self.query(step)
        self._changes[batch].append(step)
        return result

    def end(self, batch: int) -> None:
        """Forget what changed a batch that nobody grows any more."""
        self._changes.pop(batch, None)
        self._ended.append(batch)

    def query(self, step: Step[T]) -> T:
        """Take a step; again if shards were lost on the way."""
        lost: set[int] = set()
        for _ in range(MOST_LOSSES):
            try:
                if lost:
                    self._restore(sorted(lost))
                    lost = set()
                return step(self._engine)
            except ShardsLost as error:
                lost |= set(error.shards)
        raise ShardsLost.numbered(lost)

    def _build(self, shards: Sequence[int]) -> None:
        for shard in shards:
            table = self._tables[shard]
            self._engine.build(shard, table, self.first_rows[shard], self.n_rows)

    def _restore(self, shards: Sequence[int]) -> None:
        """Build shards again, and bring all of them to where the batch was."""
        engine = self._engine
        self._build(shards)
        for method, arguments_of in self._prepared:
            engine.collect([engine.ask(s, method, *arguments_of(s)) for s in shards])
        for changes in self._changes.values():
            for change in changes:
                change(engine)
