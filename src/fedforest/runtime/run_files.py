"""`run.toml`: a training described in a file; every mistake is told with its line and column.

Here is what a file may hold and of which kind it is. Whether the values can be used together is
checked where the estimators' parameters are (`estimators/run_orders.py`), and told by `mistake`.
docs/runs.md is the schema for readers.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedforest.errors import ConfigurationError, DataError, FederationError, UnknownColumn
from fedforest.runtime.toml_positions import Key, Place, Span, find_positions

_TOML_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_STRUCT_PLACE = re.compile(r"(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)")


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is learned; in vertical training one party has it."""

    column: str
    party: str | None = None
    protection: Literal["encoded", "RandomizedResponse"] = "encoded"
    epsilon: float | None = None


class Participation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the parties of horizontal training takes part, drawn how often."""

    share: float = 1.0
    scope: str = "tree"
    min_participants: int | None = None


class ValidationTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that are held out."""

    share: float = 0.2


Option = str | dict[str, Any]  # a class of options by name, or `{name = ..., its settings}`


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole file."""

    protocol: Literal["vertical", "horizontal"]
    parties: dict[str, Any]  # the data set that each takes part with
    label: Label
    name: str = ""
    task: Literal["classification", "regression"] = "classification"
    seed: int | None = None
    weight: str | None = None
    align: bool = False
    alone: bool = False
    validation: ValidationTable | None = None
    aggregation: Option = "plain"
    privacy: Option | None = None
    participation: Participation = Participation()
    parameters: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything in a file stands, to point at what is wrong."""

    path: Path
    spans: Mapping[Place, Span]

    def mistake(self, place: Place, text: str, *, at_key: bool = False) -> ConfigurationError:
        """The error about what stands there, or else about the nearest table around it."""
        while place and place not in self.spans:
            place = place[:-1]
        if not place:
            return ConfigurationError(f"{self.path}: {text}")
        span = self.spans[place]
        position = span.key if at_key else span.value
        return ConfigurationError(f"{self.path}:{position.line}:{position.column}: {text}")

    def unknown(self, place: Place, known: Iterable[str]) -> ConfigurationError:
        """The error about a key that means nothing, with the one that may be meant."""
        names = sorted(known)
        near = get_close_matches(str(place[-1]), names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "there are: " + ", ".join(names)
        where = name_table(place[:-1]) if len(place) > 1 else "a run"
        return self.mistake(place, f"{where} has no key {place[-1]!r}; {hint}", at_key=True)


def name_table(place: Place) -> str:
    """A table as its header in the file."""
    return f"[{'.'.join(map(str, place))}]"


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run, and where everything of it stands."""

    run: Run
    places: Places

    def point_at(self, error: FederationError) -> FederationError:
        """An answer to the order of this file, with the place of the words that it is about."""
        if isinstance(error, UnknownColumn):
            return self.places.mistake(("label", "column"), str(error))
        if isinstance(error, ConfigurationError | DataError) and error.party in self.run.parties:
            return self.places.mistake(("parties", error.party), str(error))
        return error

    def has(self, *place: Key) -> bool:
        """Whether the file says something there."""
        return place in self.places.spans


def read_run_file(path: Path) -> RunFile:
    """Read and check the structure; raises `ConfigurationError` with file, line and column."""
    text = _read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _explain_syntax(path, text, str(error)) from None
    places = Places(path, find_positions(text))
    try:
        run = msgspec.convert(document, Run)
    except msgspec.ValidationError as error:
        raise _explain(places, document, str(error)) from None
    _check_parties(places, run.parties)
    return RunFile(run, places)


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


def _explain(places: Places, document: Mapping[str, Any], complaint: str) -> ConfigurationError:
    """What the check of types says, in words of the file."""
    found = _STRUCT_PLACE.fullmatch(complaint)
    assert found is not None
    text, place = found[1], _read_place(found[2] or "")
    if unknown := _UNKNOWN.fullmatch(text):
        return places.unknown((*place, unknown[1]), _FIELDS[place])
    if missing := _MISSING.fullmatch(text):
        where = f" in {name_table(place)}" if place else ""
        return places.mistake(place, f"the key {missing[1]!r} is missing{where}")
    choices = _CHOICES.get(place)
    if choices is not None:
        value: Any = document
        for key in place:
            value = value[key]
        return places.mistake(place, f"{place[-1]} is {value!r}; it must be one of {choices}")
    return places.mistake(place, f"{place[-1]}: {_say_plainly(text)}")


def _say_plainly(text: str) -> str:
    """Types by the names that users of TOML have for them."""
    for theirs, ours in _WORDS.items():
        text = text.replace(theirs, ours)
    return text[:1].lower() + text[1:]


def _read_place(text: str) -> Place:
    return tuple(_STEP.findall(text))


_FIELDS: Mapping[Place, tuple[str, ...]] = {
    (): Run.__struct_fields__,
    ("label",): Label.__struct_fields__,
    ("participation",): Participation.__struct_fields__,
    ("validation",): ValidationTable.__struct_fields__,
}
_CHOICES: Mapping[Place, str] = {
    ("protocol",): "'vertical', 'horizontal'",
    ("task",): "'classification', 'regression'",
    ("label", "protection"): "'encoded', 'RandomizedResponse'",
}
_WORDS = {
    " | null": "",
    "`str`": "text",
    "`int`": "a whole number",
    "`bool`": "true or false",
    "`float`": "a number",
    "`object`": "a table",
    "`array`": "an array",
    "`str | object`": "text or a table",
}
