"""What a party does in a run, as the coordinator tells it: words only.

A role names a data set and columns of this party; everything else a handler needs, the party has
itself: its entropy, its key, the fingerprints it trusts. What becomes of a role is in
`runtime/role_work.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from fedforest.masking.key_agreement import IdentityKey, derive_key
from fedforest.protocol.aggregation.introduction import Member
from fedforest.runtime.entropy import EntropySource
from fedforest.runtime.orders import Choice, ClassWeight
from fedforest.tree.parameters import ForestParameters

KeptId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]  # of a model or an alignment
HeldOutShare = Annotated[float, msgspec.Meta(ge=0.0, le=0.5)]
HeldOutSeed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RowChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows of a data set a role is about, and in which order.

    With an alignment, rows come in its common order. Then a share of them is held out, by a seed
    that everybody is told: training is about the others, validation about these.
    """

    alignment: KeptId | None = None  # its id, by which the party kept its rows
    held_out: HeldOutShare = 0.0
    seed: HeldOutSeed = 0
    is_validation: bool = False


class Role(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Root of roles; `label` and `weight` are columns of the data set, where they are its own."""

    data: str
    is_regression: bool = False
    label: str | None = None
    weight: str | None = None
    rows: RowChoice | None = None  # None: all, in the order of the data set


class VerticalRole(Role, frozen=True, kw_only=True):
    """A party of vertical training; the label party is told the label."""

    class_weight: ClassWeight = None
    continues: str | None = None
    with_left_out: bool = False  # rows that trees leave out will have votes, here where labels are
    has_columns: bool = True  # a label party may give its label only: then others stand alone
    is_alone: bool = False  # the forest is only to be scored beside the federated one, then dropped


class HorizontalRole(Role, frozen=True, kw_only=True):
    """A party of horizontal training."""

    aggregation: Choice | None = None
    is_noisy: bool = False
    least_participants: Annotated[int, msgspec.Meta(ge=1)] = 1  # the party takes part in no smaller
    peers: tuple[str, ...] = ()  # the other parties, whose fingerprints protected sums need


class LinearRole(Role, frozen=True, kw_only=True):
    """A party of a linear model; the label party is told the label."""

    class_weight: ClassWeight = None


class AlignmentRole(Role, frozen=True, kw_only=True):
    """A party that finds out which of its rows all others have, by the ids of its data set.

    Private set intersection will be a further method with the same result: row numbers that the
    party keeps under the alignment's id. `label` and `weight` are what the run will need next: a
    party that lacks them, or a fingerprint of a peer, refuses before ids are hashed.
    """

    peers: tuple[str, ...] = ()  # the other parties
    method: Literal["keyed_hash"] = "keyed_hash"


class ScoringRole(Role, frozen=True, kw_only=True):
    """A party that compares predictions of a model with its labels.

    In vertical runs votes come from the coordinator; a horizontal model the party has itself.
    """

    model: KeptId
    has_model: bool = False
    with_confusion: bool = True  # counts of classes leave, too


class AloneRole(Role, frozen=True, kw_only=True):
    """A party that trains on its own rows alone, scores that, and tells nothing but scores."""

    parameters: ForestParameters
    seed: HeldOutSeed
    class_weight: ClassWeight = None
    with_confusion: bool = True


AnyRole = VerticalRole | HorizontalRole | LinearRole | AlignmentRole | ScoringRole | AloneRole


@dataclass(frozen=True, slots=True)
class PartyKeys:
    """What a party has before any run: who it is, whom it trusts, and its lasting secret."""

    name: str
    identity: IdentityKey = field(repr=False)
    lasting_secret: bytes = field(repr=False)  # for responses that are the same in all runs
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def response_key(self) -> bytes:
        """What permanent responses are drawn with, in all runs."""
        return derive_key(self.lasting_secret, b"responses")

    def member(self, entropies: EntropySource) -> Member:
        """The party in one run."""
        return Member(self.name, self.identity, self.pins, entropies.of("aggregation"))
