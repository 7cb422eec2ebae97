"""Parties that transports are tried with, each described by words.

A transport may run its parties in other processes, so that a test names an endpoint and its
arguments instead of handing over a function.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from fedforest.errors import DataError, PartyLost
from fedforest.protocol.vertical.encrypted.messages import REQUESTS as ENCRYPTED_REQUESTS
from fedforest.protocol.vertical.messages import REQUESTS as VERTICAL_REQUESTS
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.trainings.horizontal import REQUESTS as HORIZONTAL_REQUESTS
from fedforest.transport.in_process import Endpoint
from fedforest.tree.files.forests import encode_partial
from tests.protocol.horizontal import federations as horizontal
from tests.protocol.horizontal.recordings import KINDS, TINY, tiny_shares
from tests.protocol.vertical.cases import VerticalCase, sample_case
from tests.protocol.vertical.conversations import make_order, make_parties
from tests.protocol.vertical.encrypted_trainings import make_encrypted_parties, small_case

Spec = tuple[str, ...]  # the name of an endpoint and its arguments

MODEL = b"your share, please"  # asks a party of a vertical training for its part of the forest


def build(spec: Spec) -> Endpoint:
    """The endpoint that a specification describes."""
    name, *arguments = spec
    return _BUILDERS[name](*arguments)


def _echo() -> Endpoint:
    return bytes


def _shout() -> Endpoint:
    return lambda data: data.upper()


def _count() -> Endpoint:
    """Numbers the requests it hears."""
    numbers = count()
    return lambda data: b"%s is number %d" % (data, next(numbers))


def _fail(text: str) -> Endpoint:
    def fail(_: bytes) -> bytes:
        raise DataError.stating(text)

    return fail


def _get_lost(name: str) -> Endpoint:
    def get_lost(_: bytes) -> bytes:
        raise PartyLost("it went away", name)

    return get_lost


def _meet(folder: str, own: str, other: str) -> Endpoint:
    """Answers only after the other party has begun to answer."""

    def meet(data: bytes) -> bytes:
        Path(folder, own).touch()
        deadline = time.monotonic() + 60
        while not Path(folder, other).exists():
            assert time.monotonic() < deadline, f"{other} was not asked at the same time"
            time.sleep(0.001)
        return data

    return meet


def vertical_case(kind: str) -> VerticalCase:
    """Classes whose counts travel, numbers that the coordinator adds up itself, or ciphertexts."""
    if kind == "encrypted":
        return small_case()
    case = sample_case()
    return case if kind == "classes" else replace(case, y=case.columns["c0"] + case.y)


def _train_vertically(kind: str, name: str) -> Endpoint:
    case = vertical_case(kind)
    if kind == "encrypted":
        party: Any = make_encrypted_parties(case, make_order(case), seed=0)[name]
        endpoint = make_endpoint(party, ENCRYPTED_REQUESTS)
    else:
        party = make_parties(case)[name]
        endpoint = make_endpoint(party, VERTICAL_REQUESTS)

    def answer(data: bytes) -> bytes:
        if data == MODEL:
            model = party.model()
            return encode_partial(model.partial, model.bins, outline=model.outline)
        return endpoint(data)

    return answer


def _train_horizontally(kind: str, name: str) -> Endpoint:
    target, plug, options = KINDS[kind]
    shares = tiny_shares(target)
    order = horizontal.make_order(shares, **TINY, **options)
    return make_endpoint(horizontal.make_parties(shares, order, plug)[name], HORIZONTAL_REQUESTS)


_BUILDERS: dict[str, Callable[..., Endpoint]] = {
    "echo": _echo,
    "shout": _shout,
    "count": _count,
    "fail": _fail,
    "get lost": _get_lost,
    "meet": _meet,
    "vertical": _train_vertically,
    "horizontal": _train_horizontally,
}
