"""End notices for parties that were left out of a run: each is sent when the party is back.

A notice is stored in the coordinator's folder of the run before the run counts as finished. A party
that receives it keeps its partial forest of the finished trees, which no prediction can do without,
and deletes the rest of the run: its journal holds secrets.
"""

from collections.abc import Collection

import msgspec

from fedforest.runtime.coordinator.retention.owed_notices import OwedNotices
from fedforest.runtime.messages.party_requests import EndRun
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.base import Transport

_FILE = "owed"


class _Owed(msgspec.Struct):
    parties: list[str]
    model: str | None  # the id to keep the model under; None: only delete the run
    n_trees: int | None

    def request(self, run: bytes) -> EndRun:
        return EndRun(run, self.model, self.n_trees)


class OwedEnds(OwedNotices[_Owed]):
    """Store which parties have yet to hear that a run ended, and tell them."""

    def __init__(self, store: RunStore, hub: Transport) -> None:
        super().__init__(store, hub, _FILE, _Owed)

    def note(
        self, run: bytes, parties: Collection[str], model: str | None, n_trees: int | None
    ) -> None:
        """Store that these parties must hear of the end of a run; on disk when this returns."""
        if parties:
            self.keep(run, _Owed(sorted(parties), model, n_trees))
