"""Trainings over any transport, down to the bytes of everybody's model."""

from collections.abc import Callable, Mapping

from fedforest.protocol.aggregation.plugs import make_aggregation
from fedforest.protocol.horizontal.coordinator.training import train as train_horizontal
from fedforest.protocol.vertical.coordinator import train as train_vertical
from fedforest.protocol.vertical.encrypted.coordinator import train_encrypted
from fedforest.runtime.driver import run
from fedforest.runtime.randomness import SystemRandomness
from fedforest.transport.base import Transport
from fedforest.tree.files.forests import encode_outline
from tests.contracts.endpoints import MODEL, Spec, vertical_case
from tests.protocol.horizontal import federations as horizontal
from tests.protocol.horizontal.recordings import KINDS, TINY, tiny_shares
from tests.protocol.vertical.conversations import make_order
from tests.protocol.vertical.encrypted_trainings import RUN

Connect = Callable[[Mapping[str, Spec]], Transport]

VERTICAL_KINDS = ("classes", "numbers", "encrypted")
HORIZONTAL_KINDS = ("classes", "masked", "local", "global")


def train_vertically(connect: Connect, kind: str = "classes") -> dict[str, bytes]:
    """The coordinator's and every party's file of one fixed vertical training."""
    order = make_order(vertical_case(kind))
    transport = connect({party: ("vertical", kind, party) for party in order.parties})
    is_encrypted = kind == "encrypted"
    trained = run(train_encrypted(order, RUN) if is_encrypted else train_vertical(order), transport)
    shares = transport.exchange(dict.fromkeys(order.parties, MODEL))
    return {"coordinator": encode_outline(trained.outline)} | shares


def train_horizontally(connect: Connect, kind: str) -> bytes:
    """The model file of one fixed horizontal training."""
    target, plug, options = KINDS[kind]
    order = horizontal.make_order(tiny_shares(target), **TINY, **options)
    transport = connect({party: ("horizontal", kind, party) for party in order.parties})
    randomness = SystemRandomness(8).of("coordinator")
    is_noisy = order.privacy is not None
    aggregation = make_aggregation(plug, randomness(16), randomness, is_noisy=is_noisy)
    return run(train_horizontal(order, aggregation), transport).model
