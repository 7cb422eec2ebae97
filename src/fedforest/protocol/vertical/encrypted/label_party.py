"""The label party, where labels are encrypted.

Who learns what. It alone sees labels, gains and what leaves say. Of each other party's columns it
learns how many different cuts they have at every node and the labels on both sides of each, in an
order that tells neither column nor bin; and which rows go left at every split. The coordinator
hears who splits which node and which nodes become leaves.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, ProtocolError
from fedforest.kernels.prediction.walk import Leaves
from fedforest.masking.homomorphic.decryption import Decryptor
from fedforest.masking.homomorphic.keys import DecryptionKey
from fedforest.masking.homomorphic.scheme import Scheme
from fedforest.masking.homomorphic.summands import Summands
from fedforest.masking.key_agreement import KEY_BYTES, derive_key, draw_bytes, encode_number
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.asking import Accepted, Message, check
from fedforest.protocol.payloads import LabelScale, NodeSums
from fedforest.protocol.vertical.encrypted.cut_lists import CutReader
from fedforest.protocol.vertical.encrypted.label_trees import LabelTrees
from fedforest.protocol.vertical.encrypted.messages import (
    ChooseCuts,
    CutsChosen,
    EncryptLabels,
    EndTraining,
    JudgeChildren,
    JudgeRoots,
    LabelsEncrypted,
    NodesJudged,
)
from fedforest.protocol.vertical.encrypted.party import (
    SEAL_OF_CUTS,
    SEAL_OF_LABELS,
    BlindParty,
    digest_labels,
)
from fedforest.protocol.vertical.encrypted.payloads import EncryptedLabels, Fates, SealOfLabels
from fedforest.protocol.vertical.labels import LabelSource, read_labels
from fedforest.protocol.vertical.messages import (
    BinColumns,
    ColumnsBinned,
    FinishTrees,
    ShareLabels,
    StartTrees,
    TakeLabels,
)
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.party_trees import VerticalPartyTrees
from fedforest.tree.forest.forest import Shape
from fedforest.tree.forest.partial import ForestOutline, concatenate_outlines
from fedforest.tree.growth.parameters import ForestParameters
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.table.targets import TargetKind, TrainingTargets, encode_values

_KEYS, _ROWS = b"keys of labels", b"ciphertexts of labels"


class LabelParty(BlindParty):
    """Answers the coordinator with labels that nobody else may see."""

    def __init__(
        self,
        table: TableSource,
        member: PartyIdentity,
        labels: LabelSource,
        parameters: ForestParameters,
        *,
        model: PartyModel | None = None,
        **settings: Any,
    ) -> None:
        """Decide by `parameters`, as they were declared to the party.

        `model` is what it has of a forest that gets further trees; `settings` are those of every
        party.
        """
        depth = parameters.depth_limit
        super().__init__(table, member, labels=labels, model=model, max_depth=depth, **settings)
        self._name = member.name
        self._labels, self._parameters = labels, parameters
        self._n_columns = 0
        self._kind: TargetKind
        self._reader: CutReader | None = None
        before = None if model is None else model.outline
        self._outlines = [] if before is None else [before]

    def _handlers(self) -> dict[type[Message], Callable[[Any], Message]]:
        return {
            **super()._handlers(),
            EncryptLabels: self._encrypt_labels,
            JudgeRoots: self._judge_roots,
            ChooseCuts: self._choose_cuts,
            JudgeChildren: self._judge_children,
        }

    def _prepare(self, request: BinColumns) -> ColumnsBinned:
        """Tell how many classes there are; the unit and origin of targets stay here."""
        prepared = super()._prepare(request)
        n_classes = self._labels.scale().n_classes
        return ColumnsBinned(prepared.size, LabelScale(n_classes))

    def outline(self, n_trees: int | None = None) -> ForestOutline:
        """Return the leaves of the forest and the decrease of each split, but no owner."""
        if not self._outlines:
            raise ProtocolError.stating("there is no model yet")
        outline = concatenate_outlines(self._outlines)
        return outline if n_trees is None else outline.first_trees(n_trees)

    def model(self, n_trees: int | None = None) -> PartyModel:
        """Return the party's partial forest, with what leaves say."""
        own = super().model(n_trees)
        return replace(own, outline=self.outline(own.partial.shape.n_trees))

    def _encrypt_labels(self, request: EncryptLabels) -> LabelsEncrypted:
        check(self._reader is None, "labels are asked for twice")
        source = self._labels.scored_by(self._parameters.scored_by)
        shared, key = source.share(ShareLabels(request.code_of_class), self._randomness)
        assert shared.labels is not None
        scale, wire = source.scale(), self._parameters.scored_by.wire
        targets = read_labels(TakeLabels(scale.n_classes, wire, shared.labels), source.n_rows)
        if not _tells_only_weights(targets, source.row_weights):
            raise ConfigurationError.stating(
                "a class has no weight, and every party has to know which rows have none, which "
                "would tell their class: give the class a weight, or leave its rows out"
            )
        kind = targets.kind.with_codes(request.code_of_class)
        if kind.is_regression:
            unit, origin = scale.target_unit, scale.target_offset
            one = np.zeros(1, np.int64)
            kind = encode_values(one, None, unit, origin, self._parameters.scored_by).kind
        encrypted = self._encrypt(targets)
        if self._approve is not None:
            self._approve(request)  # last: labels that are refused anyway are not paid for
        self._rows.take_targets(targets)
        self._kind, self._n_columns = kind, request.n_columns
        self._keep_answers(key)
        return LabelsEncrypted(encrypted, self._seal_for_all(encrypted))

    def _seal_for_all(self, labels: EncryptedLabels) -> tuple[SealOfLabels, ...]:
        """Seal a digest of the labels for each other party."""
        if not self._meeting.has_met:
            return ()
        session, whole = self._meeting.session(), digest_labels(labels)
        return tuple(
            SealOfLabels(session.seal(other, b"", SEAL_OF_LABELS, whole))
            for other in session.pair_secrets
        )

    def _encrypt(self, targets: TrainingTargets) -> EncryptedLabels:
        numbers, lowest, highest = list_numbers(targets)
        summands = Summands(numbers.shape[1], lowest, highest, targets.n_rows)
        secret = draw_bytes(self._randomness, KEY_BYTES)
        keys = DecryptionKey(derive_key(secret, _KEYS), summands.n_keys)
        rows = Scheme(summands, keys.public).encrypt(numbers, derive_key(secret, _ROWS))
        self._reader = CutReader(summands, Decryptor(summands, keys), self._workers)
        return EncryptedLabels(
            numbers.shape[1],
            lowest,
            highest,
            memoryview(keys.public.encode()),
            memoryview(rows.tobytes()),
            EncryptedLabels.pack_weightless(targets.allowed),
        )

    def _make_trees(self, request: StartTrees) -> LabelTrees:
        assert self._reader is not None
        rules = self._parameters.growth_rules(self._rows.n_rows, self._n_columns)
        return LabelTrees(
            self._rows,
            request,
            self._workers,
            rules,
            self._kind,
            self._n_columns,
            self._reader,
        )

    def _tell_roots(self, trees: VerticalPartyTrees) -> NodeSums | None:  # noqa: ARG002 - a secret
        return None

    def _judging(self) -> LabelTrees:
        trees = self._growing()
        assert isinstance(trees, LabelTrees)
        return trees

    def _judge_roots(self, _: JudgeRoots) -> NodesJudged:
        return NodesJudged(Fates(self._judging().judge_roots()))

    def _choose_cuts(self, request: ChooseCuts) -> CutsChosen:
        trees, others = self._judging(), [p for p in request.parties if p != self._name]
        is_known = len(set(request.parties)) == len(request.parties) == len(others) + 1
        check(is_known and len(others) == len(request.offers), "cuts are not of as many parties")
        step = encode_number(self._n_steps + 1)

        def unseal(number: int, sealed: memoryview, holds_for: bytes) -> bytes:
            session = self._meeting.session()
            check(others[number] in session.pair_secrets, "cuts came from a stranger")
            return session.open(others[number], sealed, SEAL_OF_CUTS, step, holds_for)

        chosen = trees.choose(request, request.parties.index(self._name), unseal)
        self._n_steps += 1  # last: a refused request counts for nothing
        return chosen

    def _judge_children(self, request: JudgeChildren) -> NodesJudged:
        return NodesJudged(Fates(self._judging().judge_children(request)))

    def _leaves_to_vote(self, request: FinishTrees, shape: Shape) -> Leaves | None:
        check(request.moves is None and request.leaves is None, "the label party decides itself")
        trees = self._judging()
        outline = trees.outline(shape)
        self._outlines.append(outline)
        return outline.leaves if trees.routes_left_out else None

    def _end(self, request: EndTraining) -> Accepted:
        ended = super()._end(request)
        n_trees = sum(partial.shape.n_trees for partial in self._batches())
        if self._outlines:
            self._outlines = [concatenate_outlines(self._outlines).first_trees(n_trees)]
        return ended


def _tells_only_weights(targets: TrainingTargets, weights: NDArray[np.float64] | None) -> bool:
    """Tell whether all rows without weight have none by themselves, whatever their class."""
    own = np.ones(targets.n_rows) if weights is None else weights
    return not bool((~targets.allowed & (own > 0)).any())


def list_numbers(targets: TrainingTargets) -> tuple[NDArray[np.int64], int, int]:
    """List the integers that are encrypted of every row, with their lowest and highest value.

    Where rows weigh the same: a mark of each class but the first, or the target. Otherwise the
    weight in its class's place, or weight and weighted target. `describe_left` reads the sums.
    """
    kind, kernel = targets.kind, targets.kernel
    is_weighted = len(kernel.weights) > 0
    if kind.is_regression:
        columns = [kernel.weights, kernel.values] if is_weighted else [kernel.levels]
        numbers = np.stack(columns, axis=1)
        bound = 1 << int(np.abs(numbers).max(initial=1)).bit_length()
        return numbers, -bound, bound - 1
    marked = np.arange(0 if is_weighted else 1, max(2, kind.n_classes))
    marks = (targets.classes[:, None] == marked).astype(np.int64)
    if not is_weighted:
        return marks, 0, 1
    highest = (1 << int(kernel.weights.max()).bit_length()) - 1
    return marks * kernel.weights[:, None], 0, highest
