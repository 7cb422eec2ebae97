"""What stands before every endpoint: who asks, how often, how many at once, how large.

Requests without a valid token are refused before their body is read.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

from fedforest.runtime.membership.service_tokens import Scope, ServiceToken
from fedforest.web.api.problems import Problem

_MOST_BUCKETS = 10_000


@dataclass(frozen=True)
class WebLimits:
    """Limits of a server; a rate of 0 is none."""

    body_bytes: int = 8 << 20
    rows: int = 50_000  # of one prediction
    requests_per_second: float = 0.0  # of one token
    failures_per_second: float = 5.0  # refused credentials, of one address
    at_once: int = 64  # requests in work
    body_seconds: float = 20.0


class KnowsTokens(Protocol):
    """What finds tokens: a file of them, or the one of this process."""

    def find(self, word: str) -> ServiceToken | None:
        """Return the valid token that a word is, or None."""


class Rates:
    """Buckets that fill at a rate and hold what two seconds bring; each request takes one drop."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._most = max(1.0, 2.0 * per_second)
        self._clock = clock
        self._level: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: str, *, takes: float = 1.0) -> float:
        """Take from a bucket; return how long to wait where it has too little, else 0."""
        if not self._rate:
            return 0.0
        now = self._clock()
        level, then = self._level.pop(key, (self._most, now))
        level = min(self._most, level + (now - then) * self._rate)
        missing = takes - level
        self._level[key] = (level if missing > 0.0 else level - takes, now)
        if len(self._level) > _MOST_BUCKETS:
            self._level.popitem(last=False)
        return missing / self._rate if missing > 0.0 else 0.0


class Guard:
    """Lets requests of valid tokens in, as many and as large as the bounds allow."""

    def __init__(self, tokens: KnowsTokens, bounds: WebLimits) -> None:
        self._tokens = tokens
        self.bounds = bounds
        self._rates = Rates(bounds.requests_per_second)
        self._failures = Rates(bounds.failures_per_second)
        self._in_work = 0

    def admit(self, request: Request, scope: Scope) -> ServiceToken:
        """Return the token of a request; raises `Problem`."""
        kind, _, word = request.headers.get("authorization", "").partition(" ")
        token = self._tokens.find(word.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise self._refuse(request)
        if scope not in token.scopes:
            raise Problem(403, f"the token {token.name!r} is not for this: it lacks {scope!r}")
        wait = self._rates.wait_seconds(token.id)
        if wait:
            raise _too_many(wait)
        return token

    def _refuse(self, request: Request) -> Problem:
        address = request.client.host if request.client else ""
        wait = self._failures.wait_seconds(address)
        if wait:
            return _too_many(wait)
        return Problem(
            401,
            "send a valid token: Authorization: Bearer fft_...",
            WWW_Authenticate='Bearer realm="fedforest"',
        )

    async def read_body(
        self, request: Request, kinds: Sequence[str] = ("application/json",)
    ) -> bytes:
        """Read a body of one of these kinds, as long and within the time as allowed."""
        if kind_of(request) not in kinds:
            raise Problem(415, f"send Content-Type: {' or '.join(kinds)}")
        most = self.bounds.body_bytes
        told = request.headers.get("content-length", "")
        if told.isdigit() and int(told) > most:
            raise _too_large(most)
        body = bytearray()
        try:
            async with asyncio.timeout(self.bounds.body_seconds):
                async for piece in request.stream():
                    body += piece
                    if len(body) > most:
                        raise _too_large(most)
        except TimeoutError:
            raise Problem(408, "the body did not arrive in time") from None
        return bytes(body)

    def __enter__(self) -> "Guard":
        """Begin work on a request, unless there is too much already."""
        if self._in_work >= self.bounds.at_once:
            raise Problem(503, "the server is busy; try again", Retry_After="1")
        self._in_work += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._in_work -= 1


def kind_of(request: Request) -> str:
    """Return the media type of a request's body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _too_many(wait: float) -> Problem:
    seconds = max(1, round(wait + 0.5))
    return Problem(429, f"too many requests; wait {seconds} s", Retry_After=str(seconds))


def _too_large(most: int) -> Problem:
    return Problem(413, f"a body has at most {most:,} bytes; send fewer rows at a time")
