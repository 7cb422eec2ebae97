"""Every message of vertical training: requests of the coordinator, replies of parties.

Fields of replies are payloads from the allow-list (`protocol/payloads.py`). A request never says
which party holds or won what: bits are passed on without their source.
"""

from typing import Annotated, ClassVar

import msgspec

from fedforest.protocol.asking import Accepted, Message, Payload, Request
from fedforest.protocol.payloads import (
    Count,
    EncodedLabels,
    Gains,
    Importances,
    LabelScale,
    NodeSums,
    NoisyLabels,
    OutOfBagScores,
    OutOfBagVotes,
    RowBits,
    TableSize,
)
from fedforest.protocol.turns import MOST_SLOTS

Seed = Annotated[int, msgspec.Meta(ge=0)]
Slot = Annotated[int, msgspec.Meta(ge=0, lt=MOST_SLOTS)]  # of the batches that grow side by side


class ColumnsBinned(Message, frozen=True):
    """The size of the party's table and, from the label party, the scale of its labels."""

    reveals: ClassVar[str] = (
        "how many rows and columns the party has; of the label party also the number of "
        "classes, or the unit and origin of targets"
    )

    size: TableSize
    scale: LabelScale | None = None


class BinColumns(Request[ColumnsBinned], frozen=True):
    """Bin your columns, with this seed for the sample of rows; a model given before is kept on."""

    reveals: ClassVar[str] = "nothing of others"

    bin_seed: Seed
    max_bins: Annotated[int, msgspec.Meta(ge=2, le=255)]
    criterion: str | None = None  # its wire code; None: any, labels stay as they are


class LabelsShared(Message, frozen=True):
    """The labels for everybody who searches splits."""

    reveals: ClassVar[str] = (
        "the label of every row under a code, or its noisy label where the run demands noise, "
        "and weights of rows if there are any"
    )

    labels: EncodedLabels | None = None
    noisy_labels: NoisyLabels | None = None


class ShareLabels(Request[LabelsShared], frozen=True):
    """To the label party: give out labels, class c under code `code_of_class[c]`."""

    reveals: ClassVar[str] = "nothing of others but under which codes its classes travel"

    code_of_class: tuple[Count, ...]
    epsilon: float | None = None  # demanded label privacy; None: codes as they are


class TakeLabels(Request[Accepted], frozen=True):
    """Train towards these labels."""

    reveals: ClassVar[str] = (
        "the label of every row under a code, or its noisy label, and weights of rows if there "
        "are any"
    )

    n_classes: Count  # 0 for regression
    criterion: str
    labels: EncodedLabels


class TreesStarted(Message, frozen=True):
    """From the label party: each tree's label sums, and its numbers of rows drawn and left out."""

    reveals: ClassVar[str] = (
        "of the label party: what the labels of each tree's rows add up to, and how many rows "
        "a tree drew and left out"
    )

    root_sums: NodeSums | None = None
    root_sizes: NodeSums | None = None


class StartTrees(Request[TreesStarted], frozen=True):
    """Begin a batch of trees: draw the rows of each by its seed."""

    reveals: ClassVar[str] = "which rows each tree draws, and how often"

    row_seeds: memoryview
    bootstrap: bool
    n_draws: Count
    min_rows_leaf: Count
    with_left_out: bool
    min_weight_share: float = 0.0  # of a leaf, of the weight of its tree
    slot: Slot = 0


class RowMoves(Payload, frozen=True):
    """The fates of the open nodes since the party's last message.

    `fates` holds three bits per node (see `protocol/fates.py`); the bits are those of the
    nodes that somebody else split.
    """

    fates: memoryview
    bits: RowBits
    left_out_bits: RowBits


class SplitsFound(Message, frozen=True):
    """A gain for each open node, and nothing else."""

    reveals: ClassVar[str] = (
        "for each open node, how good the party's best split would be; not in which column or where"
    )

    gains: Gains


class FindSplits(Request[SplitsFound], frozen=True):
    """Move the rows, then score your candidate columns: a bitmap of own columns per open node."""

    reveals: ClassVar[str] = (
        "which of its own columns are candidates; where somebody else split, which rows went left"
    )

    moves: RowMoves | None
    candidates: memoryview
    slot: Slot = 0


class SplitsApplied(Message, frozen=True):
    """The sides of the nodes' rows, and the sums of the labels of left children.

    Long sums (`are_short`) do not travel beside bits, which tell whoever has the labels the same.
    """

    reveals: ClassVar[str] = (
        "which rows of a node go left at the party's own split, and what their labels add up "
        "to; not by which column or threshold"
    )

    left_sums: NodeSums | None
    bits: RowBits
    left_out_bits: RowBits


class ApplySplits(Request[SplitsApplied], frozen=True):
    """To a party that won: split these nodes (one bit per open node)."""

    reveals: ClassVar[str] = "that its own split of a node was the best of all"

    won: memoryview
    with_bits: bool  # false where the children will be leaves and no row needs to move
    slot: Slot = 0


class LeafValues(Payload, frozen=True):
    """The values of the leaves of a batch: flat over its nodes, as in `Leaves`."""

    start: memoryview
    label: memoryview
    value: memoryview


class TreesFinished(Message, frozen=True):
    """From the label party: the out-of-bag score after each tree so far, by the votes."""

    reveals: ClassVar[str] = (
        "of the label party: how well the forest does on rows it left out, after each tree"
    )

    scores: OutOfBagScores | None = None


class FinishTrees(Request[TreesFinished], frozen=True):
    """Follow the last moves and keep your share of the trees.

    The label party gets the leaves where rows left out are to vote.
    """

    reveals: ClassVar[str] = (
        "which rows went left at others' last splits; to the label party, what leaves say "
        "where rows left out vote"
    )

    moves: RowMoves | None
    leaves: LeafValues | None = None
    hard_votes: bool = False
    slot: Slot = 0


class ColumnsWeighed(Message, frozen=True):
    """Importances of the party's columns among all.

    From the label party, if asked for: the votes of rows left out.
    """

    reveals: ClassVar[str] = (
        "how much each of the party's columns helped, in the party's order and without names; "
        "of the label party, if asked for, what trees say about rows they left out"
    )

    importances: Importances
    votes: OutOfBagVotes | None = None


class WeighColumns(Request[ColumnsWeighed], frozen=True):
    """End the training: store the partial forest, and weigh columns by the worth of their splits.

    The party drops `n_dropped` trees from the end. For the rest it gets the decrease of impurity by
    its own splits, in node order, and by each whole tree. If training ends early, growing trees,
    and a last batch that some party lacks, are given up.
    """

    reveals: ClassVar[str] = "how much its own splits, and each tree in all, decreased impurity"

    own_decrease: memoryview
    tree_totals: memoryview
    n_dropped: Count = 0
    with_votes: bool = False
    ends_early: bool = False


REQUESTS = (
    BinColumns,
    ShareLabels,
    TakeLabels,
    StartTrees,
    FindSplits,
    ApplySplits,
    FinishTrees,
    WeighColumns,
)
