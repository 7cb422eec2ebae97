"""The messages of a vertical training with encrypted labels, beside those of any vertical training.

A level is four exchanges: `OfferCuts`, `ChooseCuts`, `ApplyCuts`, `JudgeChildren`.
"""

from typing import ClassVar

from fedforest.protocol.aggregation.messages import Introduce, MeetPeers
from fedforest.protocol.asking import Accepted, Message, Request
from fedforest.protocol.payloads import Count, RowBits
from fedforest.protocol.vertical.encrypted.payloads import (
    CutChoice,
    EncryptedCuts,
    EncryptedLabels,
    Fates,
    SealOfLabels,
)
from fedforest.protocol.vertical.messages import (
    BinColumns,
    FinishTrees,
    RowMoves,
    SplitsApplied,
    StartTrees,
)


class LabelsEncrypted(Message, frozen=True):
    """The labels, encrypted, for everybody who sums them."""

    reveals: ClassVar[str] = "the encrypted label of every row, which only the label party can read"

    labels: EncryptedLabels
    seals: tuple[SealOfLabels, ...]  # for each other party, in the order of their introduction


class EncryptLabels(Request[LabelsEncrypted], frozen=True):
    """To the label party: encrypt labels, class c under code `code_of_class[c]`."""

    reveals: ClassVar[str] = "how many columns all parties have together"

    code_of_class: tuple[Count, ...]
    n_columns: Count


class TakeCiphertexts(Request[Accepted], frozen=True):
    """Train towards these labels."""

    reveals: ClassVar[str] = "the encrypted label of every row, which only the label party can read"

    labels: EncryptedLabels
    seal: SealOfLabels


class NodesJudged(Message, frozen=True):
    """From the label party: what becomes of nodes."""

    reveals: ClassVar[str] = "which nodes become leaves; not why"

    fates: Fates


class JudgeRoots(Request[NodesJudged], frozen=True):
    """To the label party: which trees have a root to be split."""

    reveals: ClassVar[str] = "nothing of others"


class CutsOffered(Message, frozen=True):
    """The party's cuts, in an order of its own; only the label party can read any of it."""

    reveals: ClassVar[str] = (
        "to the label party: for each open node how many different cuts the party's candidates "
        "have, and the labels on both sides of each; not in which column or where"
    )

    cuts: EncryptedCuts


class OfferCuts(Request[CutsOffered], frozen=True):
    """Move the rows, then sum encrypted labels at the cuts of your candidate columns."""

    reveals: ClassVar[str] = (
        "which of its own columns are candidates; where somebody else split, which rows went left"
    )

    moves: RowMoves | None
    candidates: memoryview


class CutsChosen(Message, frozen=True):
    """From the label party: who splits what, and where rows of its own splits go."""

    reveals: ClassVar[str] = (
        "which party's cut is the best of each node, which positions of its own order; which rows "
        "go left at the label party's own splits"
    )

    choices: tuple[CutChoice, ...]  # of the parties that sent cuts, then of the label party itself
    bits: RowBits
    left_out_bits: RowBits


class ChooseCuts(Request[CutsChosen], frozen=True):
    """To the label party: choose the best cuts among those of others and of own candidates.

    `parties` are those that sent cuts and the label party, in the order of their columns: of equal
    cuts the first party's is taken.
    """

    reveals: ClassVar[str] = (
        "of each other party with columns how many different cuts it has at each open node, and "
        "the labels on both sides of each"
    )

    candidates: memoryview
    offers: tuple[EncryptedCuts, ...]
    parties: tuple[str, ...]


class ApplyCuts(Request[SplitsApplied], frozen=True):
    """To a party that won: split these nodes, at the first in its columns of these cuts."""

    reveals: ClassVar[str] = "that its own cut of a node was the best of all"

    choice: CutChoice


class JudgeChildren(Request[NodesJudged], frozen=True):
    """To the label party: where rows of the nodes go that others split; what becomes of them."""

    reveals: ClassVar[str] = "where others split, which rows went left"

    bits: RowBits
    left_out_bits: RowBits


class EndTraining(Request[Accepted], frozen=True):
    """Training is over after so many trees; keep your part of them.

    `n_dropped` trees of the last batch are dropped, from the end. If training ends early, trees
    that still grow, and a last batch that not everybody has, are given up.
    """

    reveals: ClassVar[str] = "nothing of others"

    n_trees: Count
    n_dropped: Count = 0
    ends_early: bool = False


REQUESTS = (
    BinColumns,
    Introduce,
    MeetPeers,
    EncryptLabels,
    TakeCiphertexts,
    StartTrees,
    JudgeRoots,
    OfferCuts,
    ChooseCuts,
    ApplyCuts,
    JudgeChildren,
    FinishTrees,
    EndTraining,
)
