"""A coordinator played by a test against the real service of one party."""

import secrets
from pathlib import Path
from typing import Any

import pyarrow

from fedforest.errors import DataError
from fedforest.masking.key_agreement import IdentityKey
from fedforest.protocol.asking import Request
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.party_requests import BeginRun, Done, EndRun
from fedforest.runtime.messages.roles import AnyRole, PartyKeys
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.policy import DataSetRules, Policy
from fedforest.runtime.party.row_identity import RowIdentity
from fedforest.runtime.party.service import PartyService
from fedforest.transport.codec import decode, encode


class TablesInMemory:
    """The data sets of a party; nothing changes them."""

    def __init__(self, **tables: dict[str, Any]) -> None:
        self._sets = {name: _make(name, pyarrow.table(table)) for name, table in tables.items()}

    def read(self, name: str) -> DataSet:
        if name not in self._sets:
            raise DataError.of("data_set.unknown", data_set=name)
        return self._sets[name]

    def erased(self, name: str) -> str:
        """No row of a table in memory is erased."""
        del name
        return ""

    def renew(self, name: str) -> None:
        """Tables in memory do not change."""


def _make(name: str, table: Any) -> DataSet:
    return DataSet(name, table, RowIdentity(name, name, table))


class Asking:
    """Begins runs at a party and asks it whatever a test likes, each request once."""

    def __init__(self, party: PartyService) -> None:
        self.party = party
        self._n_runs, self._n_asked = 0, 0
        self.run = b""

    def begin(self, role: AnyRole, terms: Terms) -> bytes:
        """Begin a run; the next requests are about it."""
        self._n_runs += 1
        self.run, self._n_asked = self._n_runs.to_bytes(16, "big"), 0
        self._say(BeginRun(self.run, role, terms))
        return self.run

    def ask(self, request: Request[Any]) -> Any:
        """Ask the party in the run that was begun last; a refused request has no number."""
        envelope = RunRequest(self.run, self._n_asked + 1, memoryview(encode(request)))
        reply = self.party.answer(encode(envelope))
        self._n_asked += 1
        return decode(reply, (type(request).reply,))

    def end(self, model: bytes | None = None, run: bytes | None = None) -> Done:
        """End a run; the party keeps its part of the model under this id."""
        kept = None if model is None else model.hex()
        return self._say(EndRun(run or self.run, kept))

    def _say(self, request: BeginRun | EndRun) -> Done:
        return decode(self.party.answer(encode(request)), (Done,))


class PlayedCoordinator(Asking):
    """The same of a party with tables in memory."""

    def __init__(self, home: Path, rules: DataSetRules, **tables: dict[str, Any]) -> None:
        keys = PartyKeys("bank", IdentityKey.from_randomness(secrets.token_bytes), bytes(32))
        super().__init__(PartyService(home, keys, TablesInMemory(**tables), policy=Policy(rules)))
