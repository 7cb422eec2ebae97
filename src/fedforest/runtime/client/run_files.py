"""`run.toml`: a training described in a file; every error names its line and column.

This module defines the keys of a file and their types, except the parameters of estimators
(`estimators/run_files.py`). docs/how-to/runs.md documents the schema for users.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedforest.errors import ConfigurationError, DataError, FederationError, UnknownColumn
from fedforest.runtime.messages.orders import Align
from fedforest.runtime.toml_documents import Document, Places, parse_document, read_document
from fedforest.runtime.toml_positions import Place


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The label column; in vertical training one party has it."""

    column: str  # what is learned
    party: str | None = None  # vertical: the party that has it; None: the first
    protection: Literal["encoded", "RandomizedResponse", "Encrypted"] = "encoded"  # vertical
    epsilon: float | None = None  # of RandomizedResponse


class ValidationTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that are held out."""

    share: float = 0.2  # of the rows, up to 0.5


Option = str | dict[str, Any]  # a class of options by name, or `{name = ..., its settings}`


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole file."""

    protocol: Literal["vertical", "horizontal"]  # the same rows, or the same columns
    parties: dict[str, Any]  # the data set of each party
    label: Label
    name: str = ""  # what commands may call the run; used again, it means the latest
    task: Literal["classification", "regression"] = "classification"  # classes, or numbers
    seed: int | None = None  # None: the coordinator draws one
    weight: str | None = None  # a column with the weight of each row
    memory_limit: str = ""  # such as "4 GB": of a role's memory, for which few trees grow together
    align: Align = False  # vertical: match rows by ids; true is "keyed-hash"
    alone: bool = False  # also train what each party reaches without the others
    validation: ValidationTable | None = None
    aggregation: Option | None = None  # horizontal: "plain", "Masked", "Ring", "Shamir"
    privacy: Option | None = None  # horizontal: "LocalDP" or "GlobalDP" with its settings
    participation: dict[str, Any] = {}
    parameters: dict[str, Any] = {}


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
    return read_run_document(read_document(path))


def read_run_text(text: str, name: str = "run.toml") -> RunFile:
    """Read a text as a file of this name, such as one that a form has written."""
    return read_run_document(parse_document(text.encode(), Path(name)))


def read_run_document(document: Document) -> RunFile:
    """Check the structure of what a run file holds."""
    run = document.read(Run)
    _check_parties(document.places, run.parties)
    return RunFile(run, document.places, document.content)


def _check_parties(places: Places, parties: Mapping[str, Any]) -> None:
    if not parties:
        text = 'no party takes part; name a data set for each, such as bank = "customers"'
        raise places.mistake(("parties",), text)
    for party, data in parties.items():
        if not isinstance(data, str) or not data:
            text = f'a party takes part with one data set: {party} = "its name"'
            raise places.mistake(("parties", party), text)
