"""The coordinator's trees in any vertical training, whichever role decides about splits.

The coordinator draws candidates, remembers the owner of each split, and passes the bits of rows on
to all other parties.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import take_bytes
from fedforest.kernels.bits.ranges import list_foreign
from fedforest.kernels.growth.flat import scatter
from fedforest.kernels.layout import NO_GROUP
from fedforest.protocol.fates import pack_fates
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.messages import RowMoves
from fedforest.protocol.vertical.moves import NodeBits, follow_sizes
from fedforest.tree.forest.partial import NOBODY
from fedforest.tree.growth.decisions import NODES_WORTH_A_THREAD, OpenTrees
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.workers import ALONE, Workers

_NO_BITS = np.zeros(0, np.uint8)


class RoutedTrees:
    """A batch of trees whose steps go from those who split nodes to everybody else."""

    def __init__(
        self,
        columns_of: Mapping[str, int],
        opened: OpenTrees,
        left_out_sizes: NDArray[np.int64] | None,
        workers: Workers = ALONE,
    ) -> None:
        """`left_out_sizes` are the rows that each tree left out, where they are routed along."""
        self._parties = list(columns_of)
        self._opened = opened
        self._left_out_sizes = left_out_sizes
        self._workers = workers
        self._owners: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]] = []
        self.n_steps = 0
        self.n_levels = 0
        self.smallest_group = NO_GROUP  # rows of a child, so far, where bits told of them

    @property
    def level(self) -> int:
        """Return the level of the deepest open nodes; others are retried with further columns."""
        return int(self._opened.structure.open.depth.max(initial=0))

    @property
    def n_open(self) -> int:
        """Count the open nodes of all trees."""
        return self._opened.n_open

    @property
    def _helpers(self) -> Workers:
        """Return the workers for a level, whose nodes may be too few for threads."""
        return self._workers if self.n_open >= NODES_WORTH_A_THREAD else ALONE

    def tell_step(
        self, parties: Iterable[str]
    ) -> tuple[dict[str, RowMoves | None], NDArray[np.uint8]]:
        """Return the last step for each of some parties, and candidates of all columns."""
        bitmap, draws = self._opened.begin_draw()
        moves: dict[str, RowMoves | None] = dict.fromkeys(parties)

        def tell(party: str) -> None:
            moves[party] = self.moves_for(party)

        tasks: list[Callable[[], None]] = [*draws, *(partial(tell, party) for party in moves)]
        self._helpers.run(lambda task: task(), tasks)
        return moves, bitmap

    def candidates_of(self, party: str, bitmap: NDArray[np.uint8]) -> memoryview:
        """Take the candidates among a party's own columns."""
        number, first = self._parties.index(party), self._opened.column_bits.first_byte
        own: NDArray[np.uint8] = take_bytes(bitmap, first[number], first[number + 1])
        return own.data

    def _remember(
        self,
        step: GrowthStep,
        owner: NDArray[np.int16],
        bits: NodeBits,
        left_out_bits: NodeBits | None,
    ) -> None:
        self._step, self._owner = step, owner
        self._bits, self._left_out_bits = bits, left_out_bits
        self._fates = pack_fates(step.is_split, step.fate)
        if self._left_out_sizes is not None and left_out_bits is not None:
            left_rows = left_out_bits.left_rows
            self._left_out_sizes = follow_sizes(self._left_out_sizes, left_rows, step)

    def _count_step(self, smallest_group: int) -> None:
        """Count a step, before the open nodes change."""
        self.smallest_group = min(self.smallest_group, smallest_group)
        self.n_steps += 1
        self.n_levels = max(self.n_levels, 1 + self.level)

    @property
    def _has_moved(self) -> bool:
        """Tell whether the last step did anything: at the start, all roots may have stayed open."""
        return bool(self._owners) or bool((self._step.fate == 0).any())

    def moves_for(self, party: str) -> RowMoves | None:
        """Return the last step for a party: fates, and the bits of nodes that others split."""
        if not self._has_moved:
            return None
        number, step = self._parties.index(party), self._step
        # rows of nodes whose children are both closed go nowhere
        bits = self._bits.take(list_foreign(self._owner, number, step.fate))
        left_out = _NO_BITS
        if self._left_out_bits is not None:
            left_out = self._left_out_bits.take(list_foreign(self._owner, number, step.is_split))
        return RowMoves(self._fates, RowBits.of(bits), RowBits.of(left_out))

    def _flat_owners(self, offsets: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the owner of each node of the batch."""
        owners = np.full(int(offsets[-1]), NOBODY, np.int16)
        for tree, node, owner in self._owners:
            scatter(offsets, tree, node, owner, owners)
        return owners
