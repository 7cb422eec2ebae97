"""A party that no longer trusts another one, in the middle of a run."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedforest import Masked
from fedforest.errors import MaskingError
from fedforest.masking.key_agreement import fingerprint
from fedforest.runtime.membership.homes import load_identity
from fedforest.runtime.membership.pins import Pins
from fedforest.runtime.messages.orders import ResumeRun
from fedforest.runtime.messages.results import HorizontalResult
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import (
    LocalFederation,
    LocalHub,
    local_federation,
    make_party,
)
from tests.integration.samples import divide, horizontal

RUN = bytes([5]) * 16
MOMENT = 9  # exchanges: parties have met, and trees are growing


class RestartingHub(LocalHub):
    """At one exchange a party has been started again, and trusts nobody any more."""

    def __init__(self, federation: LocalFederation, party: str) -> None:
        super().__init__(federation.hub.endpoints)
        self._home = federation.homes[party]
        self._before = federation.parties[party]
        self.n_exchanges = 0

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self.n_exchanges += 1
        if self.n_exchanges == MOMENT:
            self._before.close()
            settings = self._home / "party.toml"
            settings.write_text(re.sub(r'\w+ = "[a-z2-7-]{39}"\n', "", settings.read_text()))
            self.endpoints[self._home.name] = make_party(self._home).answer
        return super().exchange(requests, may_lose=may_lose)


def test_a_party_started_again_takes_up_no_run_with_whom_it_trusts_no_more(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    order = horizontal(2, aggregation=Masked())
    with local_federation(tmp_path / "local", pattern) as federation:
        hub = RestartingHub(federation, "bank")
        federation.coordinator._runs._hub = hub
        object.__setattr__(federation.coordinator._runs._trainings, "_hub", hub)
        with pytest.raises(MaskingError, match="no fingerprint of 'shop' is pinned here"):
            federation.ask(order, HorizontalResult, RUN)
        assert hub.n_exchanges == MOMENT
        pin = fingerprint(load_identity(federation.homes["shop"]).public)
        Pins(federation.homes["bank"], {}).trust("shop", pin)
        resumed = federation.ask(ResumeRun(run=RUN.hex()), HorizontalResult)
        assert isinstance(resumed, HorizontalResult)
        assert resumed.n_rows > 0
