"""`run.toml`: a training described in a file; every error names its line and column.

This module defines the keys of a file and their types, except the parameters of estimators
(`estimators/run_files.py`). docs/how-to/runs.md documents the schema for users.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from fedforest.errors import ConfigurationError, DataError, FederationError, UnknownColumn
from fedforest.runtime.messages.orders import Align
from fedforest.runtime.toml_positions import Place, Span, find_positions

# Before Python 3.14, `tomllib` gives line and column only as part of its message.
_TOML_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_NAMES = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
    dict: "a table",
    list: "an array",
}


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The label column; in vertical training one party has it."""

    column: str
    party: str | None = None
    protection: Literal["encoded", "RandomizedResponse"] = "encoded"
    epsilon: float | None = None


class ValidationTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that are held out."""

    share: float = 0.2


Option = str | dict[str, Any]  # a class of options by name, or `{name = ..., its settings}`


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole file."""

    protocol: Literal["vertical", "horizontal"]
    parties: dict[str, Any]  # the data set of each party
    label: Label
    name: str = ""
    task: Literal["classification", "regression"] = "classification"
    seed: int | None = None
    weight: str | None = None
    align: Align = False
    alone: bool = False
    validation: ValidationTable | None = None
    aggregation: Option | None = None
    privacy: Option | None = None
    participation: dict[str, Any] = {}
    parameters: dict[str, Any] = {}


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
        where = name_table(place[:-1]) if len(place) > 1 else "a run"
        return self.mistake(place, f"{where} has no key {place[-1]!r}; {hint}", at_key=True)


def name_table(place: Place) -> str:
    """Return a table's header as in the file."""
    return f"[{'.'.join(map(str, place))}]"


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run, its TOML document, and the positions in the file."""

    run: Run
    places: Places
    document: Mapping[str, Any]

    def point_at(self, error: FederationError) -> FederationError:
        """Add to an error of the coordinator the position in this file that it is about."""
        if isinstance(error, UnknownColumn):
            return self.places.mistake(("label", "column"), str(error))
        if isinstance(error, ConfigurationError | DataError) and error.party in self.run.parties:
            return self.places.mistake(("parties", error.party), str(error))
        return error

    def has(self, place: Place) -> bool:
        """Tell whether the file has something at this place."""
        return place in self.places.spans

    def read(self, place: Place) -> Any:
        """Return the value at this place."""
        value: Any = self.document
        for key in place:
            value = value[key]
        return value


def read_run_file(path: Path) -> RunFile:
    """Read a file and check its structure; raises `ConfigurationError` with line and column."""
    text = _read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _explain_syntax(path, text, str(error)) from None
    places = Places(path, find_positions(text))
    run: Run = _read_table(places, document, Run, ())
    _check_parties(places, run.parties)
    return RunFile(run, places, document)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode().replace("\r\n", "\n")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no text in UTF-8; save it as such") from None


def _check_parties(places: Places, parties: Mapping[str, Any]) -> None:
    if not parties:
        text = 'no party takes part; name a data set for each, such as bank = "customers"'
        raise places.mistake(("parties",), text)
    for party, data in parties.items():
        if not isinstance(data, str) or not data:
            text = f'a party takes part with one data set: {party} = "its name"'
            raise places.mistake(("parties", party), text)


def _explain_syntax(path: Path, text: str, complaint: str) -> ConfigurationError:
    found = _TOML_PLACE.fullmatch(complaint)
    if found is None:
        last_line = text.count("\n") + 1
        return ConfigurationError(f"{path}:{last_line}: {complaint}")
    return ConfigurationError(f"{path}:{found[2]}:{found[3]}: {found[1]}")


def _read_table(places: Places, table: Mapping[str, Any], kind: Any, place: Place) -> Any:
    """Convert a table of the file to a structure."""
    parts = {part.name: part for part in msgspec.structs.fields(kind)}
    for key in table:
        if key not in parts:
            raise places.unknown((*place, key), parts)
    for name, part in parts.items():
        if part.required and name not in table:
            where = f" in {name_table(place)}" if place else ""
            raise places.mistake(place, f"the key {name!r} is missing{where}")
    values = {
        name: _read_value(places, value, parts[name].type, (*place, name))
        for name, value in table.items()
    }
    return kind(**values)


def _read_value(places: Places, value: Any, kind: Any, place: Place) -> Any:
    alternatives = [part for part in _alternatives(kind) if part is not NoneType]
    if isinstance(value, dict) and issubclass(alternatives[0], msgspec.Struct):
        return _read_table(places, value, alternatives[0], place)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    if get_origin(kind) is Literal:
        choices = ", ".join(map(repr, get_args(kind)))
        raise places.mistake(place, f"{place[-1]} is {value!r}; it must be one of {choices}")
    expected = " or ".join(map(_name_kind, alternatives))
    raise places.mistake(place, f"{place[-1]}: expected {expected}, got {_name_kind(type(value))}")


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _name_kind(kind: Any) -> str:
    """Return a type's name in plain words for users of TOML."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return _NAMES.get(origin, "a table" if issubclass(origin, msgspec.Struct) else "a time")
