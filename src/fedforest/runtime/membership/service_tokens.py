"""Tokens by which applications and browsers identify themselves: named, scoped, expiring.

A token is one word; its file has a digest of its secret only, so that who reads the file cannot use
a token. In a federation a token belongs to a user and can do nothing that this user's role does not
allow (`runtime/coordinator/access.py`); its scopes make that less, never more.
"""

import fcntl
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.recovery.run_store import write_file

PREFIX = "fft"
FILE = "tokens.json"
MOST_DAYS = 3660.0
Scope = Literal["read", "predict", "order"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_ID_BYTES, _SECRET_BYTES = 6, 32
_NAME = re.compile(r"[\w.-]{1,64}")
_LOOK_SECONDS = 1.0  # how soon a removed token is refused


class ServiceToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as it is stored. Times are in seconds since 1970."""

    id: str
    name: str
    user: str  # of the federation; empty where models are served without one
    scopes: list[Scope]
    digest: str
    created: float
    expires: float


class ServiceTokens:
    """The tokens in one file; safe to use from several threads and processes."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._known: dict[str, ServiceToken] = {}
        self._stamp: tuple[int, int] | None = None
        self._looked = -_LOOK_SECONDS

    def issue(
        self, name: str, *, user: str = "", scopes: Collection[Scope] = SCOPES, days: float = 90.0
    ) -> str:
        """Make a token and return it; the name must be free."""
        if _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{name!r} is no name of a token: use up to 64 letters, digits, '.', '_' and '-'"
            )
        if not 0.0 < days <= MOST_DAYS:
            raise ConfigurationError(
                f"a token is valid for more than 0 and at most {MOST_DAYS:g} days"
            )
        with self._alone():
            now = self._clock()
            kept = [token for token in self.all() if token.expires > now]
            if name in [token.name for token in kept]:
                raise ConfigurationError(f"there is a token {name!r}; remove it first")
            made, word = make_token(name, user, scopes, (now, now + days * 86400.0))
            self._save([*kept, made])
        return word

    def remove(self, name: str) -> None:
        """Make a token invalid; a running server refuses it a second later."""
        with self._alone():
            tokens = self.all()
            kept = [token for token in tokens if token.name != name]
            if len(kept) == len(tokens):
                known = ", ".join(repr(token.name) for token in tokens) or "none"
                raise ConfigurationError(f"there is no token {name!r}; there is: {known}")
            self._save(kept)

    def all(self) -> list[ServiceToken]:
        """Read all tokens, the oldest first."""
        if not self._path.exists():
            return []
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[ServiceToken])
        except (OSError, msgspec.DecodeError):
            raise ConfigurationError(
                f"{self._path} cannot be read; restore it from a copy"
            ) from None

    def find(self, word: str) -> ServiceToken | None:
        """Return the valid token that a word is, or None."""
        now = self._clock()
        if not 0.0 <= now - self._looked < _LOOK_SECONDS:
            self._look()
            self._looked = now
        found = check_token(word, self._known, now)
        if found is None and self._looked < now:  # it may be new; known or not, this takes as long
            self._look()
            found = check_token(word, self._known, now)
        return found

    def _look(self) -> None:
        try:
            state = self._path.stat()
        except FileNotFoundError:
            self._known, self._stamp = {}, None
            return
        stamp = (state.st_mtime_ns, state.st_ino)
        if stamp != self._stamp:
            self._known = {token.id: token for token in self.all()}
            self._stamp = stamp

    def _save(self, tokens: list[ServiceToken]) -> None:
        write_file(self._path, msgspec.json.encode(tokens))
        self._looked = -_LOOK_SECONDS

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process changes the file."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self._path.with_name(self._path.name + ".lock").open("w")
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror}") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class OneToken:
    """A token that lives as long as its process, for a server that was given no file."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        forever = (clock(), clock() + MOST_DAYS * 86400.0)
        self._token, self.word = make_token("started-with", "", SCOPES, forever)

    def find(self, word: str) -> ServiceToken | None:
        """Return the token if the word is its."""
        return check_token(word, {self._token.id: self._token}, self._clock())


def make_token(
    name: str, user: str, scopes: Collection[Scope], life: tuple[float, float]
) -> tuple[ServiceToken, str]:
    """Return a new token as it is stored, and its word."""
    number, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
    known = [scope for scope in SCOPES if scope in scopes]
    return (
        ServiceToken(number, name, user, known, _digest(number, secret), *life),
        f"{PREFIX}_{number}_{secret}",
    )


def check_token(word: str, known: dict[str, ServiceToken], now: float) -> ServiceToken | None:
    """Return the token of a word that is valid now."""
    prefix, _, rest = word.partition("_")
    number, _, secret = rest.partition("_")
    token = known.get(number)
    # a digest is compared for unknown tokens, too, so that their ids are not told by time
    expected = token.digest if token is not None else _digest("", "")
    is_it = hmac.compare_digest(expected, _digest(number, secret))
    if token is None or not is_it or prefix != PREFIX or token.expires <= now:
        return None
    return token


def _digest(number: str, secret: str) -> str:
    text = f"fedforest service token {number} {secret}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
