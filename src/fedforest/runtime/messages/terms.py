"""Terms: what a coordinator declares about a run when it asks a party to take part.

The party checks the terms against its policy before it agrees. During the run it also checks
requests, where it can (`approval.py`). It cannot verify the asker: it must trust the coordinator.
"""

from typing import Annotated

import msgspec

# a number of rows, or a fraction of them
LeafSize = Annotated[int, msgspec.Meta(ge=1)] | Annotated[float, msgspec.Meta(gt=0, le=1)]
RunText = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{32})?$")]


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The declared terms of a run; the defaults promise the party the least protection."""

    asker: str = ""
    part_of: RunText = ""  # the run that an alignment, a score or a baseline belongs to
    trains: bool = False  # whether a forest is grown, now or after this part
    min_samples_leaf: LeafSize = 1
    label_epsilon: float | None = None  # of vertical training; None: labels are encoded only
    noise: str = "none"  # of horizontal training: "local" and "global" protect labels
    aligns: bool = False
    validates: bool = False
    stands_alone: bool = False  # also trains for each party alone
