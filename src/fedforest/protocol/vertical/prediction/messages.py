"""Messages of vertical prediction. A party learns which rows pass which nodes, up to the lookahead.

Requests name rows by their place in the requester's table; no value and no identity travels.

*Turns* say which way rows went at all levels that the last exchange settled: tree after tree and
level after level, one bit for each row that the exchange was about, set where it went left, in
64-bit words that begin anew for each level.
"""

from typing import Annotated, ClassVar

import msgspec

from fedforest.kernels.prediction.sweep import MAX_SWEPT_LEVELS
from fedforest.protocol.asking import Message, Request
from fedforest.protocol.payloads import Count, NodeSums, Outcomes, SealedVotes

Lookahead = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
SweptLevels = Annotated[int, msgspec.Meta(ge=1, le=MAX_SWEPT_LEVELS)]


class RowsSwept(Message, frozen=True):
    """A word for every 64 rows and own split of the swept levels, tree by tree, level by level.

    A bit is set if the row goes left; it is zero if own splits keep the row away from the node.
    """

    reveals: ClassVar[str] = (
        "for each row predicted, which way the party's own splits of the first levels send it"
    )

    outcomes: Outcomes


class SweepRows(Request[RowsSwept], frozen=True):
    """Say what your splits of the first levels do with rows first..last, split by split."""

    reveals: ClassVar[str] = "how many rows are predicted"

    first_row: Count
    last_row: Count
    n_levels: SweptLevels


class RowsLeapt(Message, frozen=True):
    """For every row on its way, tree by tree, two bytes: a bit for each node of the four levels.

    A bit is set if the node is an own split, own splits let the row reach it, and the row goes
    left.
    """

    reveals: ClassVar[str] = (
        "for each row predicted, which way the party's own splits of the next three levels send it"
    )

    outcomes: Outcomes


class LeapRows(Request[RowsLeapt], frozen=True):
    """Say what your splits of the next four levels do with rows first..last.

    They start at the roots, or, where `turns` are given, go on from where these lead.
    """

    reveals: ClassVar[str] = (
        "how many rows are predicted, and which way each went so far, also at others' splits"
    )

    first_row: Count
    last_row: Count
    turns: memoryview | None = None


class RowsRouted(Message, frozen=True):
    """Outcomes at own splits, tree after tree, each starting a byte, and the bits of each tree."""

    reveals: ClassVar[str] = (
        "for each row predicted, which way the party's own splits within the lookahead send it"
    )

    outcomes: Outcomes
    n_bits: NodeSums


class RouteRows(Request[RowsRouted], frozen=True):
    """Say what your splits do with rows first..last at the nodes they can reach.

    They start at the roots, or, where `turns` are given, go on from where these lead.
    """

    reveals: ClassVar[str] = (
        "how many rows are predicted, and which way each went so far, also at others' splits"
    )

    first_row: Count
    last_row: Count
    lookahead: Lookahead
    turns: memoryview | None = None


class RowsVoted(Message, frozen=True):
    """What trees say on average about each row, sealed for who asked."""

    reveals: ClassVar[str] = (
        "to the asker alone: what the forest says about each row predicted, by leaves that only "
        "the label party knows"
    )

    votes: SealedVotes


class VoteByLeaves(Request[RowsVoted], frozen=True):
    """To the label party of encrypted labels: say what these leaves say about rows first..last.

    `leaves` are numbers of leaves within their trees, tree after tree; `key` is the public key of
    who asked.
    """

    reveals: ClassVar[str] = "which leaf each row predicted reaches in each tree"

    first_row: Count
    last_row: Count
    leaves: memoryview
    key: memoryview
    hard_votes: bool = False


REQUESTS = (SweepRows, LeapRows, RouteRows, VoteByLeaves)
