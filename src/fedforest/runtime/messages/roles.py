"""Roles: the task of a party in a run.

A role names a data set and columns of this party. The party itself has all else that a handler
needs: secret bytes, its key, the fingerprints it trusts. `runtime/party/handlers.py` makes a
handler for a role.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from fedforest.masking.key_agreement import IdentityKey, derive_key
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.runtime.messages.names import ColumnName, DataSetName, KeptId, RoleName
from fedforest.runtime.messages.orders import (
    MOST_DAYS,
    AlignmentMethod,
    ClassWeight,
    OptionChoice,
    RunName,
)
from fedforest.runtime.randomness import RandomnessSource

Days = Annotated[int, msgspec.Meta(ge=0, le=MOST_DAYS)]
HeldOutShare = Annotated[float, msgspec.Meta(ge=0.0, le=0.5)]
HeldOutSeed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RowChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of a data set that a role uses, and their order.

    With an alignment, rows come in its common order. Then a fraction of them is held out, drawn
    with a seed that all parties know: training uses the other rows, validation these.
    """

    alignment: KeptId | None = None  # the id under which the party stored its aligned rows
    held_out: HeldOutShare = 0.0
    seed: HeldOutSeed = 0
    is_validation: bool = False


class Role(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of roles; `label` and `weight` are columns of this data set, None if it has none."""

    data: DataSetName
    is_regression: bool = False
    label: ColumnName | None = None
    weight: ColumnName | None = None
    rows: RowChoice | None = None  # None: all, in the order of the data set


class VerticalRole(Role, frozen=True, kw_only=True):
    """A party of vertical training; only the label party's role names the label."""

    class_weight: ClassWeight = None
    continues: KeptId | None = None
    with_left_out: bool = False  # out-of-bag rows get votes; at the label party only
    has_columns: bool = True  # False: a label party that gives only labels to another's baseline
    is_alone: bool = False  # the forest is a baseline: scored, then deleted
    label_party: RoleName | None = None  # whose key encrypts labels, where they are encrypted
    peers: tuple[RoleName, ...] = ()  # the other parties, whose fingerprints encryption needs


class HorizontalRole(Role, frozen=True, kw_only=True):
    """A party of horizontal training."""

    aggregation: OptionChoice | None = None
    least_participants: Annotated[int, msgspec.Meta(ge=1)] = 1  # of every sum of this party
    peers: tuple[RoleName, ...] = ()  # the other parties, whose fingerprints protected sums need


class LinearRole(Role, frozen=True, kw_only=True):
    """A party of a linear model; only the label party's role names the label."""

    class_weight: ClassWeight = None


class AlignmentRole(Role, frozen=True, kw_only=True):
    """A party that finds which of its rows all others have, by the ids of its data set.

    Both methods have the same result: row numbers that the party stores under the alignment's id.
    `label` and `weight` are for the training that follows: a party that lacks them, or a
    fingerprint of a peer, refuses before ids are hashed.
    """

    peers: tuple[RoleName, ...] = ()  # the other parties
    method: AlignmentMethod = "keyed-hash"
    name: RunName = ""  # of a standing alignment: what users call it
    days: Days = 0  # for which it is kept; 0: only the rows are
    extends: KeptId | None = None  # the standing alignment that gets further ids
    recalls: KeptId | None = None  # the standing alignment whose rows are found

    @property
    def is_standing(self) -> bool:
        """Whether the party keeps what an extension needs."""
        return self.days > 0 or self.extends is not None


class ScoringRole(Role, frozen=True, kw_only=True):
    """A party that compares predictions of a model with its labels.

    In vertical runs the coordinator sends the votes; in horizontal runs the party has the model.
    """

    model: KeptId
    has_model: bool = False
    with_confusion: bool = True  # also send counts of classes


class AloneRole(Role, frozen=True, kw_only=True):
    """A party that trains a baseline on its own rows, scores it, and sends only the scores."""

    seed: HeldOutSeed
    class_weight: ClassWeight = None
    with_confusion: bool = True


AnyRole = VerticalRole | HorizontalRole | LinearRole | AlignmentRole | ScoringRole | AloneRole


@dataclass(frozen=True, slots=True)
class PartyKeys:
    """A party's name and identity, the pins of parties it trusts, and its lasting secret."""

    name: str
    identity: IdentityKey = field(repr=False)
    lasting_secret: bytes = field(repr=False)  # for responses that are the same in all runs
    pins: Mapping[str, str] = field(default_factory=dict)

    def response_key(self, context: bytes) -> bytes:
        """The key from which permanent responses of all runs are drawn in one context."""
        return derive_key(self.lasting_secret, b"responses", context)

    def member(self, randomness: RandomnessSource) -> PartyIdentity:
        """Return the party as a member of one run."""
        return PartyIdentity(self.name, self.identity, self.pins, randomness.of("aggregation"))
