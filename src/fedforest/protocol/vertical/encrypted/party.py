"""A party with columns and without labels, where labels are encrypted.

Who learns what. The party sees ciphertexts, the shape of the trees, which rows go left or right at
every node, and its own splits. It never sees a label, a gain or what a leaf says. It tells the
label party the labels on both sides of its cuts, in an order of its own, and the coordinator where
rows go at the nodes it won.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.kernels.layout import Columns
from fedforest.masking.homomorphic.group import POINT_BYTES
from fedforest.masking.homomorphic.keys import EncryptionKey
from fedforest.masking.homomorphic.scheme import Scheme
from fedforest.masking.homomorphic.summands import Summands
from fedforest.masking.key_agreement import KEY_BYTES, derive_key, draw_bytes, encode_number
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.aggregation.meeting import MeetingParty
from fedforest.protocol.asking import Accepted, Message, check
from fedforest.protocol.vertical.encrypted.blind_trees import BlindTrees
from fedforest.protocol.vertical.encrypted.cut_lists import CutCipher, digest, refuse_spoiled
from fedforest.protocol.vertical.encrypted.cut_search import CutSearch
from fedforest.protocol.vertical.encrypted.messages import (
    ApplyCuts,
    CutsOffered,
    EndTraining,
    OfferCuts,
    TakeCiphertexts,
)
from fedforest.protocol.vertical.encrypted.payloads import EncryptedLabels
from fedforest.protocol.vertical.labels import read_criterion
from fedforest.protocol.vertical.messages import (
    BinColumns,
    ColumnsBinned,
    FinishTrees,
    SplitsApplied,
    StartTrees,
)
from fedforest.protocol.vertical.party import VerticalParty
from fedforest.tree.growth.batches import RowsHere
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.targets import TrainingTargets, encode_classes
from fedforest.tree.workers import Workers

_ANY_CRITERION = BY_NAME["gini"]  # of targets that are not scored here
_OFFER = b"offer of cuts"
SEAL_OF_LABELS, SEAL_OF_CUTS = b"encrypted labels", b"counts of cuts"  # contexts of pair secrets


def digest_labels(labels: EncryptedLabels) -> bytes:
    """Digest all that other parties get of the labels."""
    numbers = (labels.n_numbers, labels.lowest, labels.highest)
    return digest(repr(numbers).encode(), labels.key, labels.ciphertexts, labels.weightless)


class BlindParty(VerticalParty):
    """The steps that every party of such a training takes, with labels or without."""

    def __init__(self, table: TableSource, member: PartyIdentity, **settings: Any) -> None:
        """Know other parties by the pins of the `member`; nothing is sent to strangers.

        `settings` are those of every party of vertical training.
        """
        super().__init__(table, member.randomness, **settings)
        self._meeting = MeetingParty(member, with_seeds=False)
        self._n_steps = 0  # in which cuts were offered, or chosen

    def _handlers(self) -> dict[type[Message], Callable[[Any], Message]]:
        return {
            **self._meeting.handlers(),
            BinColumns: self._prepare,
            StartTrees: self._start_trees,
            FinishTrees: self._finish_trees,
            EndTraining: self._end,
        }

    def _end(self, request: EndTraining) -> Accepted:
        check(not self._is_growing or request.ends_early, "trees are still growing")
        remaining = request.n_trees if request.ends_early else None
        n_dropped = self._count_dropped(request.n_dropped, remaining)
        self._keep(self._without_last(n_dropped), n_dropped)
        return Accepted()


class ColumnParty(BlindParty):
    """Answers the coordinator of a vertical training with encrypted labels."""

    def __init__(
        self, table: TableSource, member: PartyIdentity, label_party: str, **settings: Any
    ) -> None:
        """Sum only what the `label_party` encrypted; `settings` are those of every party."""
        super().__init__(table, member, **settings)
        self._label_party = label_party
        self._cipher: CutCipher | None = None
        self._secret = b""  # 32 bytes from which every offer's randomness is derived
        self._criterion = _ANY_CRITERION
        self._past = b""  # digest of all requests for cuts so far: no randomness is used twice

    def _handlers(self) -> dict[type[Message], Callable[[Any], Message]]:
        return {
            **super()._handlers(),
            TakeCiphertexts: self._take_ciphertexts,
            OfferCuts: self._offer_cuts,
            ApplyCuts: self._apply_cuts,
        }

    def _prepare(self, request: BinColumns) -> ColumnsBinned:
        if request.criterion is not None:
            self._criterion = read_criterion(request.criterion)
        return super()._prepare(request)

    def _take_ciphertexts(self, request: TakeCiphertexts) -> Accepted:
        labels, n_rows = request.labels, self._table.n_rows
        check(self._cipher is None, "labels are given out twice")
        session = self._meeting.session()
        check(self._label_party in session.pair_secrets, "the label party was not introduced")
        session.open(self._label_party, request.seal.data, SEAL_OF_LABELS, digest_labels(labels))
        with refuse_spoiled():
            summands = Summands(labels.n_numbers, labels.lowest, labels.highest, n_rows)
            scheme = Scheme(summands, EncryptionKey.decode(bytes(labels.key), summands.n_keys))
            n_bytes = n_rows * scheme.n_components * POINT_BYTES
            check(len(labels.ciphertexts) == n_bytes, "ciphertexts are not of all rows")
            points = np.frombuffer(labels.ciphertexts, np.uint8)
            rows = scheme.decode(points.reshape(n_rows, -1, POINT_BYTES))
            allowed = labels.read_allowed(n_rows)
        self._cipher = CutCipher(scheme, rows, self._seal, self._workers)
        self._secret = draw_bytes(self._randomness, KEY_BYTES)
        unlabelled = encode_classes(np.zeros(n_rows, np.int64), 1, None, _ANY_CRITERION)
        self._rows.take_targets(replace(unlabelled, allowed=allowed))
        assert isinstance(self._rows, RowsHere), "encrypted labels are not for clusters"
        self._rows.make_search = self._make_search
        return Accepted()

    def _make_search(
        self,
        columns: Columns,
        targets: TrainingTargets,
        rows: NodeRows,
        min_rows_leaf: int,
        workers: Workers,
    ) -> CutSearch:
        assert self._cipher is not None
        return CutSearch(columns, targets, rows, min_rows_leaf, workers, self._cipher)

    def _seal(self, text: bytes, holds_for: bytes) -> memoryview:
        step = encode_number(self._n_steps)
        return self._meeting.session().seal(self._label_party, text, SEAL_OF_CUTS, step, holds_for)

    def _make_trees(self, request: StartTrees) -> BlindTrees:
        assert self._cipher is not None
        return BlindTrees(self._rows, request, self._workers, self._max_depth, self._criterion)

    def _blind(self) -> BlindTrees:
        trees = self._growing()
        assert isinstance(trees, BlindTrees)
        return trees

    def _offer_cuts(self, request: OfferCuts) -> CutsOffered:
        trees = self._blind()
        moved = trees.read_moves(request.moves)
        candidates = trees.read_candidates(request.candidates, moved)
        trees.move(moved)
        self._n_steps += 1
        return CutsOffered(trees.offer(candidates, self._draw_secret(request)))

    def _draw_secret(self, request: OfferCuts) -> bytes:
        """32 bytes for this answer to this request after all earlier ones, and no other."""
        moves, step = request.moves, encode_number(self._n_steps)
        told = () if moves is None else (moves.fates, moves.bits.data)
        self._past = digest(self._past, step, request.candidates, *told)
        return derive_key(self._secret, _OFFER, self._past)

    def _apply_cuts(self, request: ApplyCuts) -> SplitsApplied:
        return self._blind().apply_choice(request.choice)
