"""Sessions of browsers: each stands for one user, by a token that is looked at again every time.

They live in memory: a restart of the process ends them, and so does the removal of the token.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from fedforest.runtime.membership.service_tokens import Scope
from fedforest.web.api.guard import KnowsTokens

IDLE_SECONDS = 3600.0
LONGEST_SECONDS = 12 * 3600.0
_MOST_SESSIONS = 1000


@dataclass(slots=True)
class Session:
    """A browser that a user logged in with."""

    user: str
    scopes: frozenset[Scope]
    is_good: Callable[[], bool] = field(repr=False)  # whether its credentials still are
    began: float = 0.0
    seen: float = 0.0
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def is_form_token(self, word: str) -> bool:
        """Tell whether a form was written by this session's own pages."""
        return hmac.compare_digest(self.form_token.encode(), word.encode("utf-8", "replace"))


class Sessions:
    """The sessions of one process; safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Session] = OrderedDict()

    def open(self, user: str, scopes: frozenset[Scope], is_good: Callable[[], bool]) -> str:
        """Begin a session; return the word that its cookie holds."""
        word, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._kept[_digest(word)] = Session(user, scopes, is_good, now, now)
            if len(self._kept) > _MOST_SESSIONS:
                self._kept.popitem(last=False)
        return word

    def is_open(self, word: str) -> bool:
        """Tell whether the session of a cookie goes on, without taking part in it."""
        with self._lock:
            session = self._kept.get(_digest(word))
            return session is not None and session.is_good()

    def find(self, word: str) -> Session | None:
        """Return the session of a cookie; None where it has ended."""
        digest, now = _digest(word), self._clock()
        with self._lock:
            session = self._kept.get(digest)
            if session is None:
                return None
            idle, age = now - session.seen, now - session.began
            if idle > IDLE_SECONDS or age > LONGEST_SECONDS or not session.is_good():
                del self._kept[digest]
                return None
            session.seen = now
            return session

    def close(self, word: str) -> None:
        """End a session."""
        with self._lock:
            self._kept.pop(_digest(word), None)


def token_login(
    tokens: KnowsTokens, word: str
) -> tuple[str, frozenset[Scope], Callable[[], bool]] | None:
    """Return whom a token stands for, what it is for, and what tells whether it still is valid."""
    token = tokens.find(word)
    if token is None or "read" not in token.scopes:
        return None

    def is_good() -> bool:
        return tokens.find(word) is not None

    return token.user, frozenset(token.scopes), is_good


def _digest(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "replace")).hexdigest()
