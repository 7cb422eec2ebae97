"""A run that an earlier version began is told apart, and can be given up."""

import secrets
from pathlib import Path

import msgspec
import pytest

from fedforest.errors import ReplayError
from fedforest.masking.key_agreement import IdentityKey
from fedforest.protocol.vertical.messages import BinColumns
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.party_requests import BeginRun, EndRun
from fedforest.runtime.messages.roles import PartyKeys, VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import ALLOW_EVERYTHING
from fedforest.runtime.party.service import PartyService
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.codec import encode
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.played_coordinator import TablesInMemory

RUN = bytes(range(16))
ROLE = VerticalRole(data="people", label="y")


def test_a_run_of_an_earlier_version_ends_with_what_to_do(tmp_path: Path) -> None:
    earlier_terms = {"asker": "ann", "trains": True, "min_samples_leaf": 5, "noise": "none"}
    began = msgspec.msgpack.encode([ROLE, earlier_terms, ALLOW_EVERYTHING])
    RunStore(tmp_path).begin(RUN, began).close()
    keys = PartyKeys("bank", IdentityKey.from_randomness(secrets.token_bytes), bytes(32))
    tables = TablesInMemory(people={"x": list(range(20)), "y": [0, 1] * 10})
    party = PartyService(tmp_path, keys, tables)
    request = RunRequest(RUN, 1, memoryview(encode(BinColumns(1, 255))))
    terms = Terms(asker="ann", forest=ForestParameters(min_samples_leaf=5))
    for asked in (request, BeginRun(RUN, ROLE, terms)):
        with pytest.raises(ReplayError, match=r"another version .* cancel it and begin it anew"):
            party.answer(encode(asked))
    party.answer(encode(EndRun(RUN, None)))
    assert RunStore(tmp_path).is_finished(RUN)
