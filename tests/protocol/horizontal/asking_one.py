"""One party of numeric columns, asked directly: a coordinator's requests in short.

Requests and replies pass through the party's endpoint, as bytes.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.partition import STAYS
from fedforest.protocol.aggregation.messages import Count, CountNoisily, Part
from fedforest.protocol.aggregation.plugs import make_aggregator
from fedforest.protocol.asking import Message
from fedforest.protocol.fates import pack_fates, pack_flags
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    BeginTrees,
    CutMoves,
    CutsQuestion,
    ProposeThresholds,
    Protection,
    ThresholdsProposed,
)
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode, encode
from fedforest.tree.table.frames import read_table

NOTHING = memoryview(b"")


def describe(n_columns: int, n_classes: int, **changes: Any) -> AgreeOnTable:
    """What a run over so many numeric columns and classes would agree on."""
    names = tuple(f"x{column}" for column in range(n_columns))
    agreed = AgreeOnTable(
        names=names,
        categories=(None,) * n_columns,
        class_dtype="int64",
        classes=tuple(range(n_classes)),
        target_unit=1.0,
        target_offset=0.0,
        weight_unit=0.0,
        protection=Protection(),
        n_trees=100,
        max_depth=20,
        candidates_per_node=n_columns,
        least_rows=2,
        both_sides=False,
        rows_apart=False,
        most_losses=3,
        blocks=(),
        without_rows=(),
    )
    return msgspec.structs.replace(agreed, **changes)


class AskedParty:
    """A party, and the next step's number."""

    def __init__(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.int64],
        *,
        seed: int = 0,
        make_party: type[HorizontalParty] = HorizontalParty,
        **agreed: Any,
    ) -> None:
        self.n_rows, self.n_columns = X.shape
        is_noisy = "protection" in agreed
        randomness_by_party = SystemRandomness(seed)
        names = [f"x{column}" for column in range(self.n_columns)]
        self.party = make_party(
            read_table(dict(zip(names, X.T, strict=True))),
            PartyLabels(y),
            randomness_by_party.of("training"),
            make_aggregator("plain", is_noisy=is_noisy),
            response_key=randomness_by_party.of("responses")(32),
        )
        self._count = CountNoisily if is_noisy else Count
        self._answer = make_endpoint(self.party, REQUESTS)
        self.step = 0
        self.n_classes = int(y.max()) + 1
        if is_noisy:
            agreed = {"most_losses": 0, **agreed}
        self.agreed = describe(self.n_columns, self.n_classes, **agreed)
        self.tell(self.agreed)

    def tell(self, request: Message) -> bytes:
        """The reply to any request."""
        return self._answer(encode(request))

    def propose(
        self,
        candidates: Sequence[Sequence[int]],
        *,
        start: BeginTrees | None = None,
        moves: CutMoves | None = None,
    ) -> NDArray[np.float32]:
        """Points for the candidate columns of each open node."""
        self.step += 1
        bitmap = pack_candidates(candidates, self.n_columns)
        reply = decode(
            self.tell(ProposeThresholds(self.step, start, moves, bitmap)), (ThresholdsProposed,)
        )
        assert isinstance(reply, ThresholdsProposed)
        return reply.points.read(sum(map(len, candidates)))

    def count(
        self, thresholds: Sequence[float], wholes: Sequence[bool], *, segment: int = 0
    ) -> NDArray[np.int64]:
        """What one question is answered with, one row of integers for each side or node."""
        self.step += 1
        question = ask_cuts(thresholds, wholes, segment)
        reply: Any = decode(
            self.tell(self._count(self.step, (Part((), question),))), (self._count.reply,)
        )
        data = np.frombuffer(reply.sums.data, np.uint8)
        n_numbers = int(np.count_nonzero(data < 128))  # the last byte of a number is below
        plain: NDArray[np.int64] = reply.sums.read(n_numbers)
        return plain


def start_trees(n_trees: int, n_draws: int, *, left: tuple[int, ...] = ()) -> BeginTrees:
    """Trees of one segment that see all of so many rows."""
    segments = np.zeros(n_trees, "<u2").tobytes()
    return BeginTrees(
        memoryview(segments), bootstrap=False, n_draws=n_draws, n_rows=n_draws, left=left
    )


def pack_candidates(candidates: Sequence[Sequence[int]], n_columns: int) -> memoryview:
    flags = np.zeros((len(candidates), 8 * ((n_columns + 7) >> 3)), np.uint8)
    for node, columns in enumerate(candidates):
        flags[node, list(columns)] = 1
    return np.packbits(flags, axis=1, bitorder="little").reshape(-1).data


def ask_cuts(thresholds: Sequence[float], wholes: Sequence[bool], segment: int = 0) -> memoryview:
    """A question about cuts of numeric columns, none of them missing."""
    question = CutsQuestion(
        segment,
        memoryview(np.array(thresholds, "<f4").tobytes()),
        pack_flags(np.zeros(len(thresholds), np.bool_)),
        NOTHING,
        pack_flags(np.array(wholes, np.bool_)),
    )
    return memoryview(msgspec.msgpack.encode(question))


def stay_open(n_nodes: int) -> CutMoves:
    """No node is split; all stay open for further columns."""
    fates = pack_fates(np.zeros(n_nodes, np.bool_), np.full(n_nodes, STAYS, np.uint8))
    return CutMoves(fates, *[NOTHING] * 4)


def split_all(columns: Sequence[int], thresholds: Sequence[float]) -> CutMoves:
    """Every open node is split; all children stay open."""
    n_nodes = len(columns)
    is_split, fate = np.ones(n_nodes, np.bool_), np.full(n_nodes, 3, np.uint8)
    return CutMoves(
        pack_fates(is_split, fate),
        memoryview(np.array(columns, "<i4").tobytes()),
        memoryview(np.array(thresholds, "<f4").tobytes()),
        memoryview(bytes(n_nodes)),
        NOTHING,
    )
