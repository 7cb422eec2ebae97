"""Hostile variants of messages: bytes changed anywhere, or one field replaced by a nasty value."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

NASTY_NUMBERS: tuple[Any, ...] = (
    *(0, 1, 2, 7, 255, 256, 999, 1001, 2**16, 2**22 + 1, 2**31 - 1, 2**31, 2**40, 2**63 - 1),
    *(2**64 - 1, -1, -2, -(2**31), -(2**63)),
    *(0.0, -0.0, 0.5, -1.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan")),
)
NASTY_OTHERS: tuple[Any, ...] = (None, True, False, "", "gini", "variance", b"", b"\xff", [], {})
NASTY_WORDS = tuple(
    number.to_bytes(8, "little", signed=True)
    for number in (0, 1, -1, 2**31, 2**52 + 1, 2**62 + 1, 2**63 - 1, -(2**63), 2**60 - 1)
) + tuple(np.float64(value).tobytes() for value in (np.nan, np.inf, -np.inf, 1e308, -1.0, 0.5))


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One hostile variant of a message."""
    kind = rng.integers(3)
    if kind == 0:
        return change_bytes(data, rng)
    return replace_field(data, rng, whole=bool(kind == 1))


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, set, cut, insert, double or overwrite some bytes."""
    changed = bytearray(data)
    if not changed:
        return bytes(rng.integers(0, 256, 3, dtype=np.uint8))
    at = int(rng.integers(len(changed)))
    length = int(rng.integers(1, 9))
    choices: tuple[Callable[[], object], ...] = (
        lambda: changed.__setitem__(at, changed[at] ^ (1 << int(rng.integers(8)))),
        lambda: changed.__setitem__(at, int(rng.choice([0, 1, 127, 128, 255]))),
        lambda: changed.__delitem__(slice(at, None)),
        lambda: changed.__delitem__(slice(at, at + length)),
        lambda: changed.__setitem__(slice(at, at), rng.bytes(length)),
        lambda: changed.__setitem__(slice(at, at), changed[at : at + length]),
        lambda: changed.__setitem__(slice(at, at + 8), NASTY_WORDS[rng.integers(len(NASTY_WORDS))]),
    )
    choices[rng.integers(len(choices))]()
    return bytes(changed)


def replace_field(data: bytes, rng: np.random.Generator, *, whole: bool) -> bytes:
    """Replace one field, or change something inside of it."""
    tree = msgspec.msgpack.decode(data)
    places = [place for place in _places(tree) if place != (0,)]  # the tag stays
    if not places:
        return change_bytes(data, rng)
    place = places[rng.integers(len(places))]
    holder = tree
    for step in place[:-1]:
        holder = holder[step]
    old = holder[place[-1]]
    holder[place[-1]] = _nasty(old, rng) if whole or not isinstance(old, bytes) else None
    if holder[place[-1]] is None and isinstance(old, bytes):
        holder[place[-1]] = change_bytes(old, rng)
    return msgspec.msgpack.encode(tree)


def _places(tree: Any) -> Iterator[tuple[int, ...]]:
    """The paths to all values in nested lists, lists included."""
    if isinstance(tree, list):
        for index, value in enumerate(tree):
            yield (index,)
            for rest in _places(value):
                yield (index, *rest)


def _nasty(old: Any, rng: np.random.Generator) -> Any:
    if isinstance(old, bytes):
        size = int(rng.choice([0, 1, 7, 8, max(0, len(old) - 8), len(old), len(old) + 8]))
        fill = rng.integers(4)
        if fill == 0:
            return bytes(size)
        if fill == 1:
            return b"\xff" * size
        return rng.bytes(size)
    if isinstance(old, int | float) and rng.random() < 0.8:
        return NASTY_NUMBERS[rng.integers(len(NASTY_NUMBERS))]
    return NASTY_OTHERS[rng.integers(len(NASTY_OTHERS))]


@contextmanager
def little_memory(n_bytes: int = 2**30) -> Iterator[None]:
    """Let this process have only so much more memory: who asks for more gets a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as status:
        n_pages = int(status.read().split()[0])
    limit = n_pages * resource.getpagesize() + n_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit if soft < 0 else min(soft, limit), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
