"""Terms: the coordinator's declaration of a run when it asks a party to take part.

The party checks the terms against its policy before it agrees, and holds the coordinator to them
while the run goes on: the contract of each protocol (`protocol/contract.py`) follows from them. Who
asked for the run is the coordinator's word, unless the user's signed request comes with it
(`signed_orders.py`): then terms and role follow from that.
"""

from typing import Annotated

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.horizontal.order import Scope
from fedforest.runtime.messages.names import Asker, RunText
from fedforest.runtime.messages.orders import OptionChoice
from fedforest.tree.growth.parameters import ForestParameters

_NOISE = {LocalDP: "local", GlobalDP: "global"}


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The declared terms of a run; the defaults promise that nothing is trained."""

    asker: Asker = ""
    part_of: RunText = ""  # the run that an alignment, a score or a baseline belongs to
    n_parties: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    forest: ForestParameters | None = None  # the forest that is grown, now or after this part
    label_epsilon: float | None = None  # of vertical training; None: without noise
    encrypts_labels: bool = False  # of vertical training: only the label party can read them
    votes_left_out: bool = False  # rows that a tree did not draw follow it, and vote
    tells_votes: bool = False  # the user gets these votes
    privacy: OptionChoice | None = None  # of horizontal training: noise on labels
    scope: Scope = "run"  # of horizontal training: how long protected sums keep their participants
    share: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] | None = None  # of parties in such sums
    most_steps: Annotated[int, msgspec.Meta(ge=1)] = 1  # of linear training
    aligns: bool = False
    validates: bool = False
    stands_alone: bool = False  # also trains for each party alone

    def noise(self) -> LocalDP | GlobalDP | None:
        """Return the noise on labels; None without noise."""
        noise = None if self.privacy is None else self.privacy.make()
        if noise is not None and type(noise) not in _NOISE:
            raise ConfigurationError.stating("the noise that is declared protects no labels")
        return noise

    @property
    def noise_name(self) -> str:
        """The kind of noise as policies name it."""
        noise = self.noise()
        return "none" if noise is None else _NOISE[type(noise)]
