"""Make foreign text fit to be shown: one line, in the order of its characters, none invisible.

Peers, users and files choose names and texts that end in logs, terminals and records. A line break
would forge a line there, an escape sequence command the terminal, a mark of direction reorder the
text. Invisible characters are written as their codes, as in Python.
"""

import re
from typing import Any

import msgspec

LONGEST_TEXT = 4000  # characters of one text in a line of a log
# Letters and marks by their class, but without a shape: fillers and selectors of variants.
_SHAPELESS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# What turns the direction of the text around it.
_DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNFIT_FOR_NAMES = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_DIRECTION}]")


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Write what cannot be seen as its code, and cut off what is too long."""
    if len(text) > longest:
        text = f"{text[:longest]}... ({len(text) - longest} more characters)"
    if text.isascii():
        return text if text.isprintable() else _escape(text)
    return text if text.isprintable() and not _SHAPELESS.search(text) else _escape(text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay apart."""
    return "\n".join(map(printable, text.splitlines()))


def printable_in(value: Any) -> Any:
    """The same for every text inside lists, mappings and structures."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return type(value)(map(printable_in, value))
    if isinstance(value, dict):
        return {printable_in(name): printable_in(part) for name, part in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {name: printable_in(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def is_fit_for_names(text: str) -> bool:
    """Whether a name that is kept as it is holds no control character and no mark of direction."""
    return _UNFIT_FOR_NAMES.search(text) is None


def _escape(text: str) -> str:
    return "".join(map(_escape_one, text))


def _escape_one(character: str) -> str:
    if character.isprintable() and not _SHAPELESS.match(character):
        return character
    return character.encode("unicode_escape").decode("ascii")
