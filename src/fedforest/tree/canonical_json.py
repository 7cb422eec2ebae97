"""Canonical JSON of model files: one text per value, safe to parse from an unknown author.

Canonical text has sorted keys, no spaces, UTF-8 and finite numbers. How deep it is nested is
measured before it is parsed, and integers have few digits.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fedforest.errors import ModelFileError

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)

_MAX_DEPTH = 32
_MAX_INTEGER_DIGITS = 40  # room for a 128-bit seed; parsing digits costs quadratic time
# Strings are matched whole so that brackets inside them do not count as nesting. The
# possessive repeat and the optional closing quote keep the scan linear on hostile text.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]+|\\.)*+"?|[\[\]{}]', re.DOTALL)


def write_canonical(value: object) -> bytes:
    """Return the one text of a value; raises `ValueError` if JSON cannot hold the value."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def read_canonical(text: bytes) -> object:
    """Parse a canonical text; raises `ValueError`, which says what is wrong with any other."""
    if _is_nested_too_deep(text):
        raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
    try:
        value = json.loads(text.decode("utf-8"), parse_int=_parse_integer)
        canonical = write_canonical(value)  # refuses the NaN and infinity that the parser lets in
    except ValueError:
        raise ValueError("it is not valid JSON") from None
    # Also refuses repeated keys: the parser keeps one of them, so the text comes out shorter.
    if canonical != text:
        raise ValueError("it is not canonical JSON")
    return value


def plain_json(value: object, where: str, depth: int) -> JsonValue:
    """Rebuild a value from JSON's own types, or say which part of a model cannot be stored."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) < 10**_MAX_INTEGER_DIGITS:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if depth <= _MAX_DEPTH:
        if isinstance(value, Mapping) and has_text_keys(value):
            return {key: plain_json(item, where, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain_json(item, where, depth + 1) for item in value]
    raise ModelFileError(
        f"cannot store {where}: it must be built from None, bool, text, finite floats, integers of "
        f"at most {_MAX_INTEGER_DIGITS} digits, and lists and text-keyed mappings of these, nested "
        f"at most {_MAX_DEPTH - 2} deep"
    )


def has_text_keys(mapping: Mapping[str, object]) -> bool:
    return all(isinstance(key, str) for key in mapping)


def _is_nested_too_deep(text: bytes) -> bool:
    """Measure nesting before parsing, because the parser recurses on the C stack."""
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        first = text[token.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > _MAX_DEPTH:
            return True
    return False


def _parse_integer(digits: str) -> int:
    if len(digits.removeprefix("-")) > _MAX_INTEGER_DIGITS:
        raise ValueError("integer with too many digits")
    return int(digits)
