"""Every message of horizontal training; those of counting are in the aggregation package.

Fields of replies are payloads from the allow-list. Every request of training has a step number: a
repeated request gets the same reply, a different one under the same number is refused.
"""

from typing import Annotated, ClassVar

import msgspec

from fedforest.protocol.aggregation.messages import PartyName
from fedforest.protocol.asking import Accepted, Message, Payload, Request
from fedforest.protocol.horizontal.payloads import DeclaredColumns, DeclaredLabels, Points
from fedforest.protocol.payloads import Count, TableSize
from fedforest.tree.table.class_labels import Label
from fedforest.tree.table.columns import Category

Step = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Limit = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]  # no limit may be zero
Rows = Annotated[int, msgspec.Meta(ge=1, lt=2**62)]  # of all parties together


class TableDeclared(Message, frozen=True):
    """The description of the party's table and labels."""

    reveals: ClassVar[str] = (
        "the number of rows, names and kinds of columns, categories, which columns have "
        "missing values, and which classes there are or how large targets can be"
    )

    size: TableSize
    columns: DeclaredColumns
    labels: DeclaredLabels


class DeclareTable(Request[TableDeclared], frozen=True):
    """Declare your table and your labels, which are classes or targets."""

    reveals: ClassVar[str] = "nothing of others"

    is_regression: bool
    criterion: str | None = None  # its wire code; None: any, labels stay as they are


class Protection(Payload, frozen=True):
    """The noise that the run demands; the party adds it, and checks its privacy cost."""

    kind: str = ""  # "local", "global", or none
    bits: Count = 0
    hashes: Count = 0
    keep: float = 0.0
    p: float = 0.0
    q: float = 0.0
    epsilon_query: float = 0.0
    low: float = 0.0  # declared bounds of targets
    high: float = 0.0


class SharedDraw(Payload, frozen=True):
    """The seed and the probability by which blocks of parties are drawn for trees or steps."""

    seed: Annotated[memoryview, msgspec.Meta(min_length=8, max_length=8)]
    share: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
    least: Limit  # parties with rows that are drawn at least


class AgreeOnTable(Request[Accepted], frozen=True):
    """Agree on the common description of all tables, and on the limits of the run."""

    reveals: ClassVar[str] = (
        "all parties' columns, categories and classes, not whose they are, and how large "
        "targets are; where sums are protected, which parties take part only together, in which "
        "trees, and which of them have no rows"
    )

    names: tuple[str, ...]
    categories: tuple[tuple[Category, ...] | None, ...]  # per column, in code order; None: numbers
    class_dtype: str
    classes: tuple[Label, ...]
    target_unit: float  # fixed point of targets
    target_offset: float
    weight_unit: float  # fixed point of weights; 0 where all weigh one
    protection: Protection
    n_trees: Limit
    max_depth: Limit
    candidates_per_node: Limit
    least_rows: Annotated[int, msgspec.Meta(ge=2, lt=2**31)]  # in a node; with fewer, abstain
    both_sides: bool
    rows_apart: bool  # rows are counted apart from their weight
    most_losses: Count  # after so many, no trees are begun anew
    blocks: tuple[tuple[PartyName, ...], ...]  # of parties that take part together; plain: none
    without_rows: tuple[PartyName, ...]  # parties that hide nobody
    draw: SharedDraw | None = None  # None: parties do not know how participants are drawn


class BeginTrees(Payload, frozen=True):
    """Begin a batch of trees: draw rows for each by own randomness."""

    segments: memoryview  # per tree (u2), ascending: those of one segment have one set of parties
    bootstrap: bool
    n_draws: Rows  # of `n_rows` rows: the fraction is the same for all parties
    n_rows: Rows
    left: tuple[Count, ...]  # numbers of the blocks that left the run; more than before: a restart
    first: Count = 0  # number of the batch's first tree
    total: Count = 0  # trees of the batch, those without this party included


class CutMoves(Payload, frozen=True):
    """The fates of the open nodes, and the cuts of those that were split."""

    fates: memoryview
    feature: memoryview  # <i4 per split node, as the following
    threshold: memoryview  # <f4
    missing_left: memoryview  # u1
    left_set: memoryview  # <u8, four words for each split by categories


class ThresholdsProposed(Message, frozen=True):
    """One point for each (node, candidate column)."""

    reveals: ClassVar[str] = (
        "for each open node and candidate column, one random value inside the range of the "
        "party's rows there, or that it has too few rows"
    )

    points: Points


class ProposeThresholds(Request[ThresholdsProposed], frozen=True):
    """Move the rows, then name a random point for each candidate column of each open node.

    A party that takes no part in this step gets an empty bitmap: it only moves its rows.
    """

    reveals: ClassVar[str] = (
        "which columns are candidates in open nodes, the splits that were made, and what fraction "
        "of all rows a tree draws"
    )

    step: Step
    start: BeginTrees | None
    moves: CutMoves | None
    candidates: memoryview  # a bitmap of columns per open node


class TakeForest(Request[Accepted], frozen=True):
    """Take the finished model; each party keeps it and predicts alone."""

    reveals: ClassVar[str] = (
        "the finished model: every split with its threshold, and what every leaf says"
    )

    model: memoryview


class CutsQuestion(msgspec.Struct, frozen=True, array_like=True):
    """The question of one segment: count the sides of these cuts, and these whole nodes.

    Cuts are in the order of the segment's (node, candidate column) pairs.
    """

    segment: Count
    threshold: memoryview  # <f4 per pair; NaN: not asked
    missing_left: memoryview  # one bit per pair; empty if no value is missing anywhere
    left_set: memoryview  # <u8, four words for each pair asked of a categorical column
    wholes: memoryview  # one bit per open node
    whole_table: bool = False  # if set, ask for the sums over the whole table instead


REQUESTS = (DeclareTable, AgreeOnTable, ProposeThresholds, TakeForest)
