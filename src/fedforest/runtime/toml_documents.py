"""Read a TOML file into a structure; every error names the file's line and column.

The structure is a `msgspec.Struct`, whose fields are the keys of the file with their types and
limits. The reader walks structure and document side by side and so knows the place of a value that
does not fit. `run.toml` and `policy.toml` are read by it.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.toml_positions import Place, Span, find_positions

# Before Python 3.14, `tomllib` gives line and column only as part of its message.
_SYNTAX = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)
_NAMES = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    dict: "a table",
    list: "an array",
    tuple: "an array",
}

Structure = TypeVar("Structure", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of all keys and values in a file, for error messages."""

    path: Path
    spans: Mapping[Place, Span]

    def mistake(self, place: Place, text: str, *, at_key: bool = False) -> ConfigurationError:
        """Make an error at a place, or at the nearest table around it."""
        while place and place not in self.spans:
            place = place[:-1]
        if not place:
            return ConfigurationError(f"{self.path}: {text}")
        span = self.spans[place]
        position = span.key if at_key else span.value
        return ConfigurationError(f"{self.path}:{position.line}:{position.column}: {text}")

    def unknown(self, place: Place, known: Iterable[str]) -> ConfigurationError:
        """Make an error about an unknown key, with the known key that is nearest."""
        names = sorted(known)
        near = get_close_matches(str(place[-1]), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "there are: " + ", ".join(names)
        where = f"{_name_table(place[:-1])} has" if len(place) > 1 else "there is"
        return self.mistake(place, f"{where} no key {place[-1]!r}; {hint}", at_key=True)


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, with the position of everything in it."""

    places: Places
    content: Mapping[str, Any]

    def read(self, kind: type[Structure]) -> Structure:
        """Convert the document to a structure; raises `ConfigurationError` at what does not fit."""
        structure: Structure = _read_table(self.places, self.content, kind, ())
        return structure


def read_document(path: Path) -> Document:
    """Read a file; raises `ConfigurationError` if it is no TOML."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    return parse_document(data, path)


def parse_document(data: bytes, path: Path) -> Document:
    """Parse the content of a file, which errors call by its path."""
    try:
        text = data.decode().replace("\r\n", "\n")
        content = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no text in UTF-8; save it as such") from None
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX.fullmatch(str(error))
        if found is None:  # at the end of the file
            raise ConfigurationError(f"{path}:{text.count(chr(10)) + 1}: {error}") from None
        raise ConfigurationError(f"{path}:{found[2]}:{found[3]}: {found[1]}") from None
    return Document(Places(path, find_positions(text)), content)


def _read_table(places: Places, table: Mapping[str, Any], kind: Any, place: Place) -> Any:
    parts = {part.name: part for part in msgspec.structs.fields(kind)}
    for key in table:
        if key not in parts:
            raise places.unknown((*place, key), parts)
    for name, part in parts.items():
        if part.required and name not in table:
            where = f" in {_name_table(place)}" if place else ""
            raise places.mistake(place, f"the key {name!r} is missing{where}")
    values = {
        name: _read_value(places, value, parts[name].type, (*place, name))
        for name, value in table.items()
    }
    return kind(**values)


def _read_value(places: Places, value: Any, kind: Any, place: Place) -> Any:
    for part in _alternatives(kind):
        inner = get_args(part)[-1:] or (Any,)
        if isinstance(value, dict) and isinstance(part, type) and issubclass(part, msgspec.Struct):
            return _read_table(places, value, part, place)
        if isinstance(value, dict) and get_origin(part) is dict:
            return {k: _read_value(places, v, inner[0], (*place, k)) for k, v in value.items()}
        if isinstance(value, list) and get_origin(part) is tuple:  # tuple[kind, ...]
            kind_of_each = get_args(part)[0]
            return tuple(
                _read_value(places, each, kind_of_each, (*place, number))
                for number, each in enumerate(value)
            )
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise places.mistake(place, _explain(value, kind, place)) from None


def _explain(value: Any, kind: Any, place: Place) -> str:
    """Say what a value must be instead."""
    name = next(key for key in reversed(place) if isinstance(key, str))
    if get_origin(kind) is Literal:
        choices = ", ".join(map(repr, get_args(kind)))
        return f"{name} is {value!r}; it must be one of {choices}"
    if get_origin(kind) is Annotated:
        plain, limits = get_args(kind)
        try:
            msgspec.convert(value, plain)
        except msgspec.ValidationError:
            return _explain(value, plain, place)
        limit = f"at least {limits.ge}" if limits.ge is not None else f"above {limits.gt}"
        return f"{name} is {value}; it must be {limit}"
    expected = " or ".join(map(_name_kind, _alternatives(kind)))
    return f"{name}: expected {expected}, got {_name_kind(type(value))}"


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of a union, or the type, without None: TOML has no such value."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [part for part in parts if part is not NoneType]


def _name_kind(kind: Any) -> str:
    """Return a type's name in plain words for users of TOML."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return _NAMES.get(origin, "a table" if issubclass(origin, msgspec.Struct) else "a time")


def _name_table(place: Place) -> str:
    """Return a table's header as in the file."""
    return f"[{'.'.join(map(str, place))}]"
