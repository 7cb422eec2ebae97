"""The limits of parameters, and the sentence that refuses any other value.

A limit is a test with its words; `|` joins limits, so `NOTHING | count_or_fraction(1)` reads as
what it allows. Every refusal names the parameter, shows the value and says what to pass instead.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeGuard, get_args

import numpy as np

from fedforest.errors import ConfigurationError

_UNITS = {"MB": 10**6, "GB": 10**9}
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(MB|GB)")
_LEAST_MEMORY = 10**6


@dataclass(frozen=True, slots=True)
class Limit:
    """Whether a value is allowed, and what is: one noun for each alternative."""

    allows: Callable[[Any], bool]
    words: tuple[str, ...]

    def __or__(self, other: "Limit") -> "Limit":
        first, second = self.allows, other.allows
        return Limit(lambda value: first(value) or second(value), self.words + other.words)

    @property
    def text(self) -> str:
        """Return the words after "it must be"."""
        *others, last = self.words
        return f"{', '.join(others)} or {last}" if others else last

    def check(self, name: str, value: object) -> None:
        """Raise `ConfigurationError`, whose `key` is the parameter, unless the value is allowed."""
        if not self.allows(value):
            raise ConfigurationError(f"{name} is {value!r}; it must be {self.text}.", key=name)


def limited(default: Any, limit: Limit) -> Any:
    """A field of a dataclass with a default and a limit."""
    return field(default=default, metadata={"limit": limit})


def check_fields(values: Any) -> None:
    """Check every `limited` field of a dataclass."""
    for part in fields(values):
        if "limit" in part.metadata:
            part.metadata["limit"].check(part.name, getattr(values, part.name))


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return is_number(value) and math.isfinite(value)


def one_of(choices: Any) -> Limit:
    """One of the words of a `Literal`."""
    words = get_args(choices)
    return Limit(lambda value: isinstance(value, str) and value in words, tuple(map(repr, words)))


def whole(least: int, most: int | None = None, words: str = "") -> Limit:
    """A whole number of at least, or from and to; `words` where it needs its own."""
    usual = f"of at least {least}" if most is None else f"from {least} to {most}"
    return Limit(
        lambda value: is_whole(value) and least <= value and (most is None or value <= most),
        (words or f"a whole number {usual}",),
    )


def number(words: str, least: float, most: float) -> Limit:
    """A number from and to, as `words` say."""
    return Limit(lambda value: is_number(value) and least <= value <= most, (words,))


def count_or_fraction(least: int) -> Limit:
    """A whole number counts; any other is a fraction, so that 1 and 1.0 mean different things."""
    fraction = Limit(lambda value: not is_whole(value) and FRACTION.allows(value), FRACTION.words)
    return whole(least) | fraction


def made_by(kind: type, words: str) -> Limit:
    """An object of a class; `words` show how one is made."""
    return Limit(lambda value: isinstance(value, kind), (words,))


NOTHING = Limit(lambda value: value is None, ("None",))
SWITCH = Limit(lambda value: isinstance(value, bool | np.bool_), ("True", "False"))
FRACTION = Limit(
    lambda value: is_number(value) and 0.0 < value <= 1.0, ("a fraction above 0 and up to 1",)
)


def read_memory(text: str) -> int | None:
    """Return the bytes of a size such as "800 MB" or "1.5 GB"; None for an empty text."""
    if not text:
        return None
    found = _MEMORY.fullmatch(text)
    n_bytes = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if n_bytes < _LEAST_MEMORY:
        raise ConfigurationError.stating(
            'memory_limit is no size of memory of at least 1 MB; write "800 MB" or "4 GB"'
        )
    return n_bytes
