"""Sequence diagrams: a small training is run, and its messages are drawn as they were sent."""

import html
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_breast_cancer

from docs.book.messages import protocol_messages
from fedforest import HorizontalExtraTreesClassifier, Masked, VerticalForestClassifier
from fedforest.runtime import driver

_LANE, _TOP, _STEP, _MARGIN = 210, 54, 40, 110


class Arrow(NamedTuple):
    """What the coordinator says to some parties at once, or what they answer."""

    kind: str
    n_bytes: dict[str, int]  # by party
    is_reply: bool


def draw_vertical() -> str:
    """Draw the training of two small trees over two parties' columns."""
    X, y = load_breast_cancer(return_X_y=True)
    forest = VerticalForestClassifier(n_estimators=2, max_depth=2, random_state=0)
    with listening() as arrows:
        forest.fit({"bank": X[:, :15], "shop": X[:, 15:]}, y)
    return to_svg(("bank", "shop"), arrows, "A vertical training, message by message")


def draw_horizontal() -> str:
    """Draw the training of two small trees over three parties' rows, with masked sums."""
    X, y = load_breast_cancer(return_X_y=True)
    owner = np.array(["north", "south", "west"])[np.arange(len(y)) % 3]
    forest = HorizontalExtraTreesClassifier(
        n_estimators=2, max_depth=2, aggregation=Masked(), random_state=0
    )
    with listening() as arrows:
        forest.fit(X, y, party=owner)
    return to_svg(("north", "south", "west"), arrows, "A horizontal training with masked sums")


def draw_prediction() -> str:
    """Draw one prediction of a vertical forest."""
    X, y = load_breast_cancer(return_X_y=True)
    tables = {"bank": X[:, :15], "shop": X[:, 15:]}
    forest = VerticalForestClassifier(n_estimators=20, prediction="one_round", random_state=0)
    forest.fit(tables, y)
    with listening() as arrows:
        forest.predict({party: table[:100] for party, table in tables.items()})
    return to_svg(("bank", "shop"), arrows, "One prediction of 100 rows, in one round")


@contextmanager
def listening() -> Iterator[list[Arrow]]:
    """Collect the messages of everything that is run meanwhile."""
    arrows: list[Arrow] = []
    add = driver.ExchangeLog.add

    def listen(log: driver.ExchangeLog, exchange: driver.Exchange) -> None:
        arrows.extend(_arrows(exchange))
        add(log, exchange)

    with patch.object(driver.ExchangeLog, "add", listen):
        yield arrows


def _arrows(exchange: driver.Exchange) -> Iterator[Arrow]:
    yield Arrow(exchange.request, dict(exchange.bytes_to), is_reply=False)
    yield Arrow(reply_names()[exchange.request], dict(exchange.bytes_from), is_reply=True)


@cache
def reply_names() -> dict[str, str]:
    """Return the name of the reply to each request."""
    kinds = [kind for requests in protocol_messages().values() for kind in requests]
    return {kind.__name__: kind.reply.__name__ for kind in kinds}


def to_svg(parties: Sequence[str], arrows: Sequence[Arrow], title: str) -> str:
    """Draw lanes for the coordinator and the parties, and an arrow for each message."""
    lanes = {"coordinator": _MARGIN}
    lanes |= {party: _MARGIN + _LANE * (at + 1) for at, party in enumerate(parties)}
    width, height = max(lanes.values()) + _MARGIN, _TOP + _STEP * (len(arrows) + 1)
    body = "".join(_lane(name, x, height) for name, x in lanes.items())
    body += "".join(
        _arrow(arrow, lanes, _TOP + _STEP * (at + 1)) for at, arrow in enumerate(arrows)
    )
    return (
        f'<svg class="sequence" role="img" aria-label="{html.escape(title)}" '
        f'viewBox="0 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg" '
        f'font-family="system-ui, sans-serif" font-size="13">{body}</svg>'
    )


def _lane(name: str, x: int, height: int) -> str:
    return (
        f'<rect x="{x - 60}" y="8" width="120" height="28" rx="5" fill="#e7eff5" stroke="#9fb4c3"/>'
        f'<text x="{x}" y="27" text-anchor="middle" font-weight="600" fill="#1d2b36">{name}</text>'
        f'<line x1="{x}" y1="36" x2="{x}" y2="{height - 8}" stroke="#b9c7d1"/>'
    )


def _arrow(arrow: Arrow, lanes: dict[str, int], y: int) -> str:
    """Draw one line to, or from, the outermost party, with an end at each party."""
    here, ends = lanes["coordinator"], [lanes[party] for party in arrow.n_bytes]
    colour, dashes = ("#2b7a3d", "5 3") if arrow.is_reply else ("#1f5c8a", "none")
    tips = f'<path d="M{here} {y} l7 -4 v8 z" fill="{colour}"/>'
    if not arrow.is_reply:
        tips = "".join(f'<path d="M{x} {y} l-7 -4 v8 z" fill="{colour}"/>' for x in ends)
    sizes = " + ".join(f"{n_bytes:,}" for n_bytes in arrow.n_bytes.values())
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x in ends if arrow.is_reply
    )
    return (
        f'<line x1="{here}" y1="{y}" x2="{max(ends)}" y2="{y}" stroke="{colour}" '
        f'stroke-width="1.5" stroke-dasharray="{dashes}"/>{tips}{dots}'
        f'<text x="{here + 12}" y="{y - 6}" fill="#1d2b36">'
        f'{html.escape(arrow.kind)} <tspan fill="#5a6b78">{sizes} bytes</tspan></text>'
    )
