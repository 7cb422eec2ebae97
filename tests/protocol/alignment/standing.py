"""Standing alignments without services: made, extended and recalled, one run after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedforest.protocol.alignment import payloads, psi_coordinator, psi_party
from fedforest.protocol.alignment.standing_alignment import StandingIds, StandingPoints
from fedforest.protocol.label_door import Accountant
from tests.protocol.alignment.federations import Aligning

Ids = Mapping[str, Sequence[bytes]]
Prepare = Callable[[Aligning], None]


def leave(_parties: Aligning) -> None:
    pass


@dataclass
class StandingRuns:
    """The runs about one standing alignment, and what the roles keep between them."""

    accountants: Mapping[str, Accountant] = field(default_factory=dict)
    kept: Mapping[str, StandingIds] = field(default_factory=dict)
    points: StandingPoints | None = None
    n_runs: int = 0
    last: Aligning = field(init=False)

    def meet(self, ids: Ids, *, recalls: bool = False) -> Aligning:
        """Parties before a run: their identities stay, secrets and sessions are fresh."""
        self.n_runs += 1
        self.last = Aligning(
            ids,
            seed=self.n_runs,
            method="psi",
            accountants=self.accountants,
            before=self.kept,
            recalls=recalls,
            run=b"standing run %04d" % self.n_runs,
        )
        return self.last

    def compare(self, ids: Ids, prepare: Prepare = leave) -> Aligning:
        """Make the alignment, or extend it by the ids that are new; keep the outcome."""
        parties = self.meet(ids)
        prepare(parties)
        found = parties.intersect(self.points)
        self.kept, self.points = parties.standing(), found.points
        return parties

    def recall(self, ids: Ids) -> Aligning:
        """Find the rows, now, of the ids that were common."""
        parties = self.meet(ids, recalls=True)
        parties.recall(len(self.common()))
        return parties

    def common(self) -> list[int]:
        """The entries of the first party that all have."""
        first = next(iter(self.kept.values()))
        common: list[int] = first.read_common().tolist()
        return common


@contextmanager
def pieces_of(n_ids: int) -> Iterator[None]:
    """Have lists travel in pieces of so many ids."""
    modules = (payloads, psi_coordinator, psi_party)
    before = payloads.PIECE_IDS
    for module in modules:
        module.PIECE_IDS = n_ids  # type: ignore[attr-defined] # the length is not for users
    try:
        yield
    finally:
        for module in modules:
            module.PIECE_IDS = before  # type: ignore[attr-defined] # as above
