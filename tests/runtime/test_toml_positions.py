"""Keys and values are found where they stand, in whatever style a document is written."""

import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.runtime.toml_positions import Place, Position, Span, find_positions

BARE_KEYS = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
KEYS = BARE_KEYS | st.sampled_from(["two words", "a.b", 'quo"te', "ünï", "#", "", "[x]", "tab\t"])
PLAIN = st.sampled_from(
    [
        *("1", "-7_000", "0x1F", "1e-3", "inf", "true", "1979-05-27 07:32:00", "07:32:00"),
        *('""', "''", '"a = 1 # no"', "'[x]'", r'"\" ] }"', '"""one\n[two]\n"three" """'),
        "'''a\n'b = 2'\n'''",
    ]
)


@st.composite
def values(draw: st.DrawFn, depth: int = 0) -> Any:
    """Text of a plain value, a list of values, or a dictionary of values."""
    kind = draw(st.sampled_from(["plain", "list", "table"] if depth < 2 else ["plain"]))
    if kind == "list":
        return draw(st.lists(values(depth + 1), max_size=3))
    if kind == "table":
        return draw(st.dictionaries(KEYS, values(depth + 1), max_size=3))
    return draw(PLAIN)


@dataclass
class Writer:
    """Writes a document and notes where it puts everything: the obvious reference."""

    draw: Any
    text: str = ""
    spans: dict[Place, Span] = field(default_factory=dict)

    def here(self) -> Position:
        lines = self.text.split("\n")
        return Position(len(lines), len(lines[-1]) + 1)

    def space(self, *, lines: bool = False) -> None:
        choices = ["", " ", "\t "] + (["\n", " # [a] = {\n"] if lines else [])
        self.text += self.draw(st.sampled_from(choices))

    def key(self, name: str) -> Position:
        position = self.here()
        is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if is_bare and self.draw(st.booleans()):
            self.text += name
        else:
            escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            self.text += f'"{escaped}"'
        return position

    def pair(self, place: Place, value: Any) -> None:
        key = self.key(str(place[-1]))
        self.space()
        self.text += "="
        self.space()
        self.spans[place] = Span(key, self.here())
        self.value(place, value)

    def value(self, place: Place, value: Any) -> None:
        if isinstance(value, list):
            self.text += "["
            for number, item in enumerate(value):
                self.space(lines=True)
                self.spans[*place, number] = Span(self.here(), self.here())
                self.value((*place, number), item)
                self.space(lines=True)
                self.text += ","
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for number, (name, item) in enumerate(value.items()):
                self.text += ", " if number else " "
                self.pair((*place, name), item)
            self.text += " }"
        else:
            self.text += value

    def table(self, name: str, content: dict[str, Any]) -> None:
        header = self.here()
        self.text += "["
        self.space()
        self.spans[name,] = Span(self.key(name), header)
        self.space()
        self.text += "]\n"
        self.pairs((name,), content)

    def pairs(self, place: Place, content: dict[str, Any]) -> None:
        for name, value in content.items():
            self.space()
            self.pair((*place, name), value)
            self.space()
            self.text += self.draw(st.sampled_from(["\n", " # x = 1\n", "\n\n"]))


@given(data=st.data())
def test_everything_is_found_where_it_was_written(data: st.DataObject) -> None:
    content = data.draw(st.dictionaries(KEYS, values(), max_size=4))
    tables = data.draw(st.dictionaries(KEYS, st.dictionaries(KEYS, values(1), max_size=3)))
    writer = Writer(data.draw)
    writer.pairs((), content)
    for name in tables.keys() - content.keys():
        writer.table(name, tables[name])
    tomllib.loads(writer.text)  # what follows is promised for valid documents only
    assert find_positions(writer.text) == writer.spans


def test_dotted_keys_and_nested_headers_are_paths() -> None:
    spans = find_positions('a.b = 1\n[c.d]\n"e.f".g = 2\n')
    assert spans["a", "b"] == Span(Position(1, 3), Position(1, 7))
    assert spans["c", "d"].key == Position(2, 4)
    assert spans["c", "d", "e.f", "g"] == Span(Position(3, 7), Position(3, 11))


def test_elements_of_arrays_of_tables_are_counted() -> None:
    spans = find_positions("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 3\n")
    assert spans["a", 0, "x"].value == Position(2, 5)
    assert spans["a", 1, "x"].value == Position(4, 5)
    assert spans["a", 1, "b", "y"].value == Position(6, 5)


@pytest.mark.parametrize("text", ["", "\n\n", "# only = a comment", "   \t"])
def test_a_document_without_keys_has_no_positions(text: str) -> None:
    assert find_positions(text) == {}
