"""A real party on a folder of its own, and the requests of a coordinator that is after one row.

The service reads a CSV file by its catalogue, follows its policy and books in its ledger. The row
that the coordinator is after lies far from all others, so that the honest point of the first cut
leaves it alone on one side.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP, ResponseCode
from fedforest.privacy.queries import Queries
from fedforest.protocol.aggregation.messages import CountNoisily, Part
from fedforest.protocol.horizontal.contract import describe_protection
from fedforest.protocol.horizontal.messages import DeclareTable, ProposeThresholds
from fedforest.runtime.membership.homes import load_keys
from fedforest.runtime.messages.orders import OptionChoice
from fedforest.runtime.messages.roles import HorizontalRole, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.policy import PolicyFile
from fedforest.runtime.party.service import PartyService
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.played_coordinator import Asking
from tests.protocol.horizontal.asking_one import ask_cuts, describe, pack_candidates, start_trees

FAR_AWAY = 1e6
ALIGNMENT = "a" * 32
CAP = 2.5
KEEP = float(np.tanh(CAP / 4))  # 2 ln((1 + keep) / (1 - keep)) is the cap
SEEN_THROUGH = LocalDP(bits=2, keep=KEEP, p=1.0, q=0.0)  # answers are the permanent bits
STUMP = ForestParameters(
    n_estimators=1, max_depth=1, min_samples_leaf=5, bootstrap=False, max_features=2
)


class LoneParty(Asking):
    """A party with data sets, asked by whoever plays its coordinator."""

    def __init__(self, home: Path, secret: int = 0) -> None:
        (home / "keys").mkdir(parents=True)
        for name in ("lasting", "identity"):
            (home / "keys" / name).write_bytes(bytes([secret] * 32))
        keys, rules = load_keys(home, "bank", {}), PolicyFile(home)
        super().__init__(PartyService(home, keys, Catalogue(home), policy=rules))
        self.home = home

    def demand(self, rules: str) -> None:
        """Replace the rules of the party's owner."""
        (self.home / "policy.toml").write_text(rules)

    def write(self, file: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write a table as a CSV file."""
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        (self.home / file).write_text("\n".join(lines) + "\n")

    def add(self, name: str, **entry: Any) -> None:
        """Add an entry to the catalogue."""
        Catalogue(self.home).add(name, Entry(**entry))

    def align(self, name: str, rows: NDArray[np.int64], alignment: str = ALIGNMENT) -> str:
        """Keep these rows as the ones that an alignment found, in this order."""
        ids = Catalogue(self.home).read(name).ids().tolist()
        Alignments(self.home / "alignments").keep(alignment, name, ids, rows)
        return alignment

    def agree(
        self, data: str, noise: LocalDP | GlobalDP, rows: RowChoice | None = None, label: str = "y"
    ) -> int:
        """Begin a run and agree on its noise, which is when it is booked; return how many rows."""
        role = HorizontalRole(data=data, label=label, rows=rows)
        terms = Terms(asker="user", forest=STUMP, privacy=OptionChoice.of(noise))
        self.begin(role, terms)
        declared = self.ask(DeclareTable(is_regression=False, criterion=STUMP.scored_by.wire))
        protection = describe_protection(noise, 2, Queries(2, 1, 1))
        agreed = describe(2, 2, protection=protection, n_trees=1, max_depth=1)
        noisy = msgspec.structs.replace(agreed, rows_apart=True, both_sides=True, most_losses=0)
        self.ask(noisy)
        n_rows: int = declared.size.n_rows
        return n_rows

    def response_of_far_row(
        self, data: str, rows: RowChoice | None = None, label: str = "y"
    ) -> tuple[int, ...]:
        """What a run learns of the row far away: the bits of its permanent response."""
        n_rows = self.agree(data, SEEN_THROUGH, rows, label)
        candidates = pack_candidates([[0]], 2)
        proposed = self.ask(ProposeThresholds(1, start_trees(1, n_rows), None, candidates))
        question = ask_cuts(proposed.points.read(1).tolist(), [False])
        counted = self.ask(CountNoisily(2, (Part((), question),)))
        _, right = counted.sums.read(6).reshape(2, 3)
        self.end()
        assert right[2] == 1, "the row is not alone"
        return tuple(right[:2].tolist())


def likelihood_ratio(responses: Sequence[tuple[int, ...]]) -> float:
    """The evidence of independent responses for one label against the other, in nats."""
    code: ResponseCode = SEEN_THROUGH.resolve(2)
    bits = np.array(responses, np.float64)
    kept, turned = np.log((1 + KEEP) / 2), np.log((1 - KEEP) / 2)
    of_labels = [np.where(bits == code.matrix[:, label], kept, turned) for label in (0, 1)]
    return abs(float(np.sum(of_labels[0]) - np.sum(of_labels[1])))
