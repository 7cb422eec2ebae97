"""A coordinator that sends what it likes to the real service of a party with the default policy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fedforest.protocol.asking import Message
from fedforest.protocol.linear.messages import RowsScored
from fedforest.protocol.vertical import messages
from fedforest.protocol.vertical.messages import BinColumns
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.party_requests import BeginPrediction, BeginRun, InPrediction
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.messages.roles import VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.transport.codec import decode, encode
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.local_federation import LocalFederation
from tests.runtime.ruled_federations import ruled_federation
from tests.runtime.service_recordings import RUN, make_pattern

BANK = "bank"
PARAMETERS = ForestParameters(n_estimators=10, max_depth=4, min_samples_leaf=5)
TERMS = Terms(asker="user", n_parties=2, forest=PARAMETERS)
BIN = BinColumns(0, PARAMETERS.max_bins, PARAMETERS.scored_by.wire)
DATA = {"bank": "columns", "shop": "columns"}
REPLIES: tuple[type[Message], ...] = (
    *{kind.reply for kind in (*messages.REQUESTS, *prediction_messages.REQUESTS)},
    RowsScored,
)


@contextmanager
def trained_federation(folder: Path, **changes: Any) -> Iterator[LocalFederation]:
    """A federation with the default policy, and an honest forest of it."""
    with ruled_federation(folder / "federation", make_pattern(folder / "pattern")) as federation:
        federation.ask(forest(**changes), VerticalResult, RUN)
        yield federation


def forest(**changes: Any) -> TrainVertical:
    """An order that the default policy allows."""
    order = TrainVertical(data=DATA, label="label", label_party=BANK, parameters=PARAMETERS, seed=1)
    return msgspec.structs.replace(order, **changes)


def say(federation: LocalFederation, request: Message) -> bytes:
    """Send a message of the coordinator to the bank."""
    return federation.parties[BANK].answer(encode(request))


class PlayedRun:
    """A run at the bank whose coordinator makes the requests up."""

    def __init__(self, federation: LocalFederation, run: bytes, **role: Any) -> None:
        self._federation, self._run, self._n_asked = federation, run, 0
        given = VerticalRole(**{"data": "columns", **role})
        say(federation, BeginRun(run, given, TERMS))

    def ask(self, request: Message) -> Any:
        self._n_asked += 1
        numbered = RunRequest(self._run, self._n_asked, memoryview(encode(request)))
        return decode(say(self._federation, numbered), REPLIES)


class PlayedPrediction:
    """A prediction at the bank whose coordinator makes the requests up."""

    def __init__(
        self, federation: LocalFederation, number: int = 0, model: bytes = RUN, **begin: Any
    ) -> None:
        self._federation, self._id, self._n_asked = federation, bytes([number]) * 16, 0
        given = {"rows": None, "asker": "user", **begin}
        self._begin = BeginPrediction(model=model.hex(), data="columns", **given)

    def ask(self, request: Message) -> Any:
        """Return the reply; a refused request has no number."""
        begin = self._begin if self._n_asked == 0 else None
        payload = memoryview(encode(request))
        reply = say(self._federation, InPrediction(self._id, self._n_asked + 1, begin, payload))
        self._n_asked += 1
        return decode(reply, REPLIES)
