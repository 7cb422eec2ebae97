"""Find the positions of keys and values in a TOML document, which `tomllib` does not tell.

The scanner reads a document that `tomllib` has already accepted, so it trusts the syntax. It only
tracks the present table, keys with dots, and strings and brackets that may hold text like a key. A
place is a path of keys; elements of arrays have their numbers as keys.
"""

import re
from typing import NamedTuple

Key = str | int
Place = tuple[Key, ...]


class Position(NamedTuple):
    """A line and column, counted from 1 as in editors."""

    line: int
    column: int


class Span(NamedTuple):
    """The positions of a key and of its value; a table's value is at its header."""

    key: Position
    value: Position


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_PLAIN_VALUE = re.compile(r"[^\s,\]}#]+(?: (?=[0-9]{2}:)[^\s,\]}#]+)?")  # a date may have a space
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def find_positions(text: str) -> dict[Place, Span]:
    """Find every key of a valid document and every element of its arrays."""
    return _Scanner(text).scan()


class _Scanner:
    """A scanner that makes one pass over the document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._spans: dict[Place, Span] = {}
        self._n_tables: dict[Place, int] = {}  # of arrays of tables

    def scan(self) -> dict[Place, Span]:
        table: Place = ()
        while self._skip(_BLANK):
            if self._peek() == "[":
                table = self._read_header()
            else:
                self._read_pair(table)
        return self._spans

    def _read_header(self) -> Place:
        """Read `[table]` or `[[element of an array of tables]]`."""
        start = self._position()
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        place: Place = ()
        for key, position in self._read_keys():
            if place in self._n_tables:
                place = (*place, self._n_tables[place] - 1)
            place = (*place, key)
            self._spans.setdefault(place, Span(position, start))
        self._at += 2 if is_array else 1
        if is_array:
            number = self._n_tables.get(place, 0)
            self._n_tables[place] = number + 1
            place = (*place, number)
            self._spans[place] = Span(start, start)
        elif place in self._n_tables:
            place = (*place, self._n_tables[place] - 1)
        return place

    def _read_pair(self, table: Place) -> None:
        place, keys = table, self._read_keys()
        self._skip(_SPACE)
        self._at += len("=")
        self._skip(_SPACE)
        value = self._position()
        for key, position in keys:
            place = (*place, key)
            self._spans.setdefault(place, Span(position, value))
        self._read_value(place)

    def _read_keys(self) -> list[tuple[str, Position]]:
        """Read a key, or several with dots between them."""
        keys = []
        while True:
            self._skip(_SPACE)
            position = self._position()
            keys.append((self._read_key(), position))
            self._skip(_SPACE)
            if self._peek() != ".":
                return keys
            self._at += 1

    def _read_key(self) -> str:
        quote = self._peek()
        if quote not in ("'", '"'):
            return self._take(_BARE_KEY)
        inner = self._take(_STRING)[1:-1]
        return inner if quote == "'" else _ESCAPE.sub(_unescape, inner)

    def _read_value(self, place: Place) -> None:
        opening = self._peek()
        if opening == "[":
            self._read_array(place)
        elif opening == "{":
            self._read_inline_table(place)
        else:
            self._take(_STRING if opening in ("'", '"') else _PLAIN_VALUE)

    def _read_array(self, place: Place) -> None:
        self._at += 1
        number = 0
        while self._skip(_BLANK) and self._peek() != "]":
            position = self._position()
            self._spans[*place, number] = Span(position, position)
            self._read_value((*place, number))
            number += 1
            self._skip_comma()
        self._at += 1

    def _read_inline_table(self, place: Place) -> None:
        self._at += 1
        while self._skip(_BLANK) and self._peek() != "}":
            self._read_pair(place)
            self._skip_comma()
        self._at += 1

    def _skip_comma(self) -> None:
        self._skip(_BLANK)
        if self._peek() == ",":
            self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Skip the text that matches; return False at the end of the document."""
        found = pattern.match(self._text, self._at)
        assert found is not None, "these patterns fit everywhere"
        self._at = found.end()
        return self._at < len(self._text)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise AssertionError("the document was read by tomllib, so a key or value is here")
        self._at = found.end()
        return found.group()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _position(self) -> Position:
        start = self._text.rfind("\n", 0, self._at) + 1
        return Position(self._text.count("\n", 0, self._at) + 1, self._at - start + 1)


def _unescape(found: "re.Match[str]") -> str:
    escaped = found.group(1)
    if escaped[0] in "uU" and len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _ESCAPED.get(escaped, escaped)
