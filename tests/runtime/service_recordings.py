"""Honest runs of a coordinator's and parties' services with every byte kept, to be spoiled.

Tables hold values that nobody could come upon by chance: they must be in no error text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow

from fedforest.errors import FederationError, ProtocolError, RemoteProtocolError
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.asking import Message
from fedforest.runtime.messages.orders import (
    OptionChoice,
    PredictLinear,
    PredictVertical,
    TrainHorizontal,
    TrainLinear,
    TrainVertical,
)
from fedforest.runtime.messages.party_requests import TO_PARTY
from fedforest.runtime.messages.results import Predictions
from fedforest.transport.codec import decode
from fedforest.transport.error_table import refuse
from fedforest.transport.frames import encode_frame
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import FederationFolder, make_federation
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.processes import result_type, role_files

PARTIES = ("bank", "shop")
RUN = bytes(range(16))
N_ROWS = 60
PLANTED_NUMBER = 98765.4375
PLANTED_LABELS = ("zq-solvent", "zq-broke")
PLANTED_COLUMN = "zq-income"


AnyTraining = TrainVertical | TrainHorizontal | TrainLinear


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """An honest run: who was asked what, who answered what, and what all roles hold then."""

    pattern: FederationFolder
    order: AnyTraining
    requests: list[dict[str, bytes]]
    replies: list[dict[str, bytes]]
    files: dict[str, bytes]

    def of(self, party: str) -> list[tuple[bytes, bytes]]:
        """Requests to a party with its replies."""
        return [
            (asked[party], answered[party])
            for asked, answered in zip(self.requests, self.replies, strict=True)
            if party in asked
        ]


def make_pattern(folder: Path) -> FederationFolder:
    """Folders of two parties with planted values."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = PLANTED_NUMBER
    labels = np.where(X[:, 0] + X[:, 2] > np.median(X[:, 0] + X[:, 2]), *PLANTED_LABELS)
    names = [PLANTED_COLUMN, "b", "c", "d"]
    columns = [dict(zip(names[i : i + 2], X[:, i : i + 2].T, strict=True)) for i in (0, 2)]
    tables = {
        party: {
            "columns": pyarrow.table(columns[i] | ({"label": labels} if i == 0 else {})),
            "rows": pyarrow.table(
                dict(zip(names, X[i::2].T, strict=True)) | {"label": labels[i::2]}
            ),
        }
        for i, party in enumerate(PARTIES)
    }
    return make_federation(folder, tables)


def vertical_order() -> TrainVertical:
    return TrainVertical(
        data=dict.fromkeys(PARTIES, "columns"),
        label="label",
        label_party=PARTIES[0],
        parameters=ForestParameters(n_estimators=2, max_depth=2),
        seed=3,
        label_epsilon=2.0,
        out_of_bag=True,
    )


def horizontal_order() -> TrainHorizontal:
    return TrainHorizontal(
        data=dict.fromkeys(PARTIES, "rows"),
        label="label",
        parameters=ForestParameters(n_estimators=2, max_depth=2, bootstrap=False),
        seed=3,
        aggregation=OptionChoice.of(Masked()),
    )


def linear_order() -> TrainLinear:
    return TrainLinear(
        data=dict.fromkeys(PARTIES, "columns"),
        label="label",
        label_party=PARTIES[0],
        is_regression=False,
        penalty=1.0,
        max_iter=4,
        tol=1e-6,
    )


ORDERS: Mapping[str, Callable[[], AnyTraining]] = {
    "vertical": vertical_order,
    "horizontal": horizontal_order,
    "linear": linear_order,
}


def record(folder: Path, order: AnyTraining) -> Recording:
    """Train, then predict where parties have a part in it."""
    pattern = make_pattern(folder / "pattern")
    with local_federation(folder / "honest", pattern) as federation:
        requests, replies = listen(federation)
        federation.ask(order, result_type(order), RUN)
        if not isinstance(order, TrainHorizontal):
            federation.ask(prediction_of(order), Predictions)
        files = role_files(federation.homes, RUN.hex())
    return Recording(pattern, order, requests, replies, files)


def prediction_of(order: TrainVertical | TrainLinear) -> PredictVertical | PredictLinear:
    """Of all rows, by what the run of this order came to."""
    kind = PredictLinear if isinstance(order, TrainLinear) else PredictVertical
    return kind(data=order.data, model=RUN.hex())


def listen(federation: LocalFederation) -> tuple[list[dict[str, bytes]], list[dict[str, bytes]]]:
    """Keep what is asked and answered from now on."""
    asked: list[dict[str, bytes]] = []
    replies: list[dict[str, bytes]] = []
    carry = federation.hub.exchange

    def exchange(requests: Mapping[str, bytes], *, may_lose: bool = False) -> dict[str, bytes]:
        answered = carry(requests, may_lose=may_lose)
        asked.append(dict(requests))
        replies.append(answered)
        return answered

    federation.hub.exchange = exchange  # type: ignore[method-assign] # this one hub is listened to
    return asked, replies


def kind_of(data: bytes) -> type[Message]:
    """What a request to a party is."""
    return type(decode(data, TO_PARTY))


def check_error(error: FederationError, *peers: str, of_sum: bool = False) -> None:
    """It names one of these peers where a peer is to blame, and nobody's data.

    Who spoiled a sum that is all the coordinator sees, nobody can know.
    """
    if isinstance(error, ProtocolError) and not (of_sum and type(error) is ProtocolError):
        assert isinstance(error, RemoteProtocolError)
        assert error.party in peers
    for planted in (str(PLANTED_NUMBER), *PLANTED_LABELS):
        assert planted not in str(error)
    assert PLANTED_COLUMN.encode() not in encode_frame(refuse(1, error, hides_names=True))


def spoil(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace one value, wherever it is in lists and maps, by one that does not belong there."""
    tree: Any = msgspec.msgpack.decode(data)
    holders = list(_holders(tree))
    if not holders:
        return data + b"\x00"
    holder, key = holders[rng.integers(len(holders))]
    if isinstance(holder, dict) and rng.random() < 0.2:
        holder[str(NASTY[rng.integers(len(NASTY))])] = holder.pop(key)
    else:
        holder[key] = NASTY[rng.integers(len(NASTY))]
    return msgspec.msgpack.encode(tree)


def _holders(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in nested lists and maps that holds a value."""
    if not isinstance(tree, dict | list):
        return []
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [place for key, value in entries for place in ((tree, key), *_holders(value))]


NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 255, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1, -(2**63)),
    *(0.0, 0.5, -1.0, 1e300, 1e-300, float("inf"), float("-inf"), float("nan")),
    *(
        "",
        "label",
        "b",
        "columns",
        "rows",
        "../x",
        "\x00",
        "bank",
        "shop",
        "Masked",
        "gini",
        "é" * 99,
    ),
    *(b"", b"\xff", bytes(16), bytes(16).hex(), RUN.hex(), "0" * 32, RUN),
    *([], {}, [[]], [None], {"k": 1}, {"": ""}, [0] * 50),
)
