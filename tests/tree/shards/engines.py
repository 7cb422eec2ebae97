"""An engine that keeps shards in this process, as another process would: all it gets is pickled."""

import pickle
from collections import Counter
from collections.abc import Collection, Sequence
from functools import reduce
from typing import Any

from fedforest.errors import ShardsLost
from fedforest.tree.shards.shard import Shard
from fedforest.tree.table.pieces import TableSource


class EngineHere:
    """Shards in this process; `losses` are the numbers of calls before which a shard is lost."""

    def __init__(self, n_shards: int, losses: Collection[int] = ()) -> None:
        self._shards: list[Shard | None] = [None] * n_shards
        self._losses, self.n_calls = set(losses), 0
        self.n_by_method: Counter[str] = Counter()

    @property
    def n_shards(self) -> int:
        return len(self._shards)

    def build(self, shard: int, table: TableSource, first_row: int, n_rows: int) -> None:
        self._shards[shard] = Shard(pickle.loads(pickle.dumps(table)), first_row, n_rows)

    def ask(self, shard: int, method: str, *arguments: Any) -> Any:
        self.n_calls += 1
        self.n_by_method[arguments[1] if method == "ask" else method] += 1
        if self.n_calls in self._losses:
            self._shards[shard] = None
        kept = self._shards[shard]
        if kept is None:
            raise ShardsLost.numbered([shard])
        sent = pickle.loads(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(getattr(kept, method)(*sent)))

    def add(self, handles: Sequence[Any]) -> Any:
        return reduce(lambda one, other: one + other, handles)

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        return list(handles)
