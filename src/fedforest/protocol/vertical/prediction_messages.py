"""Messages of vertical prediction. A party learns which rows pass which nodes, up to the lookahead.

Requests name rows by their place in the requester's table; no value and no identity travels.
"""

from typing import Annotated

import msgspec

from fedforest.protocol.asking import Message
from fedforest.protocol.payloads import Count, NodeSums, Outcomes, RowBits

Lookahead = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


class RouteRows(Message, frozen=True):
    """Say what your splits do with rows first..last at the nodes they can reach.

    They start at the roots, or, where `paths` is given, go on from where these turns lead: per tree
    one bit for each level settled, row after row, trees starting whole bytes.
    """

    first_row: Count
    last_row: Count
    lookahead: Lookahead
    paths: memoryview | None = None


class RowsRouted(Message, frozen=True):
    """Outcomes at own splits, tree after tree, each starting a byte, and the bits of each tree."""

    outcomes: Outcomes
    n_bits: NodeSums


class StepRows(Message, frozen=True):
    """The walk with a lookahead of one: say which of rows first..last at your nodes go left.

    They stand at the roots, or, where `bits` is given, one level below: these are the bits of the
    nodes that others split, as in training.
    """

    first_row: Count
    last_row: Count
    bits: RowBits | None = None


class RowsStepped(Message, frozen=True):
    """The bits of rows that stand at the party's own nodes."""

    bits: RowBits


class AskSplit(Message, frozen=True):
    """One row at one node (flat over all trees): the classical walk, for benchmarks only."""

    row: Count
    node: Count


class SplitAsked(Message, frozen=True):
    """One bit, set where the row goes left."""

    outcome: Outcomes


REQUESTS = (RouteRows, StepRows, AskSplit)
REPLIES = (RowsRouted, RowsStepped, SplitAsked)
