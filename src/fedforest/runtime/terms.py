"""What a coordinator declares about a run when it asks a party to take part.

The party holds it against its policy before it agrees. Where it can, it also holds what is then
done against what was declared (`run_approval.py`); who asks, it can only take the coordinator's
word for.
"""

from typing import Annotated, Any

import msgspec

from fedforest.runtime.orders import AlignRows, TrainLinear

# rows, or a share of them
LeafSize = Annotated[int, msgspec.Meta(ge=1)] | Annotated[float, msgspec.Meta(gt=0, le=1)]
RunText = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{32})?$")]


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are what a policy likes least: whoever declares nothing is promised nothing."""

    asker: str = ""
    part_of: RunText = ""  # the run that an alignment, a score or a baseline belongs to
    trains: bool = False  # whether a forest is grown, now or after this part
    min_samples_leaf: LeafSize = 1
    label_epsilon: float | None = None  # of vertical training; None: labels are encoded only
    noise: str = "none"  # of horizontal training: "local" and "global" protect labels
    aligns: bool = False
    validates: bool = False
    stands_alone: bool = False  # also trains for each party alone


_NOISE = {"LocalDP": "local", "GlobalDP": "global"}


def declare_terms(order: Any) -> Terms:
    """The terms of an order for a training, or for an alignment."""
    if isinstance(order, AlignRows):
        return Terms(asker=order.asker, aligns=True)
    if isinstance(order, TrainLinear):
        return Terms(asker=order.asker)  # there are no leaves, and labels leave as they are
    leaf = order.parameters.min_samples_leaf
    privacy = getattr(order, "privacy", None)
    return Terms(
        asker=order.asker,
        trains=True,
        min_samples_leaf=leaf if isinstance(leaf, int) else float(leaf),
        label_epsilon=getattr(order, "label_epsilon", None),
        noise="none" if privacy is None else _NOISE[privacy.name],
        aligns=getattr(order, "align", False),
        validates=order.validation is not None,
        stands_alone=order.alone,
    )
