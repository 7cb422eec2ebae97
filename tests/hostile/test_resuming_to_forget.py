"""A coordinator that wants parties to forget, by a crash, whom their numbers were added up with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fedforest.errors import PartyLost, ProtocolError
from fedforest.protocol.aggregation.messages import CountMasked
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode
from fedforest.transport.in_process import InProcess
from tests.runtime.recoverable_runs import Recoverable, horizontal_scenario, sample_shares

PARTIES = ("p0", "p1", "p2", "p3")
N_EXCHANGES = 12  # some levels into the first trees


class Crash:
    """The coordinator's process ends after some exchanges; keeps the last requests to count."""

    def __init__(self, training: Recoverable) -> None:
        self._inner = InProcess(training.endpoints())
        self._n_left = N_EXCHANGES
        self.counted: dict[str, CountMasked] = {}

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self._n_left -= 1
        if self._n_left < 0:
            raise PartyLost("the coordinator ends here", "p0")
        for party, data in requests.items():
            told = decode(data, (RunRequest,))
            assert isinstance(told, RunRequest)
            request = decode(told.payload, REQUESTS)
            if isinstance(request, CountMasked):
                self.counted[party] = request
        return self._inner.exchange(requests, may_lose=may_lose)


def handler_of(training: Recoverable, party: str) -> Any:
    """A party's handler, replayed from its journal if its process is not running."""
    handler: Any = training.parties[party].process().handler
    while not isinstance(handler, HorizontalParty):
        handler = handler._handler
    return handler


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_that_was_killed_still_refuses_what_it_refused_before(
    tmp_path: Path, party: str
) -> None:
    shares = sample_shares(owner=np.arange(60) % 4)
    training = Recoverable(horizontal_scenario(shares, Masked(), max_depth=4), tmp_path)
    crash = Crash(training)
    with pytest.raises(PartyLost):
        training.carry_on(crash)
    before = handler_of(training, party)
    training.kill_everybody()
    after = handler_of(training, party)
    assert after is not before
    assert after._companions == before._companions
    assert after._companions.of_segment
    assert after._n_trees == before._n_trees > 0
    counted = crash.counted[party]
    others = tuple(name for name in PARTIES if name == party or name in PARTIES[1:3])
    for step in (counted.step, counted.step + 1):
        part = structs.replace(counted.parts[0], participants=others)
        with pytest.raises(ProtocolError, match="other parties than the seed of the run draws"):
            after.handle(structs.replace(counted, step=step, parts=(part,)))
