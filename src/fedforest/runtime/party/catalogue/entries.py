"""Entries of data sets: `catalogue/NAME.toml` in the party's folder, written by the owner.

There is one file for each data set, so that adding or removing one never rewrites another that was
edited by hand. An entry names where the URI of a database is, so that it holds no password.
"""

import json
import re
from pathlib import Path
from typing import Literal

import msgspec

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.catalogue.ids import DEFAULT_RULES, IdRules
from fedforest.runtime.recovery.run_store import write_file

FOLDER = "catalogue"
Kind = Literal["number", "category"]
Missing = str | int | float

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of a data set, and how its columns are read."""

    source: str | None = None  # a file; relative paths count from the party's folder
    uri_env: str | None = None  # a PostgreSQL database: the variable that holds its URI,
    uri_file: str | None = None  # or a file with it, readable by its owner only
    table: str | None = None  # the table of a database that is read,
    query: str | None = None  # or the query
    id: list[str] = []  # columns that tell rows apart; never features, labels or weights
    id_rules: IdRules = DEFAULT_RULES  # the one form of an id
    types: dict[str, Kind] = {}  # of columns whose kind is not to be inferred
    missing: list[Missing] = []  # values that count as missing, beside those of the source
    exclude: list[str] = []  # columns that no run may see
    table_identity: str | None = None  # the table that the rows are of; None: what is read

    def check(self) -> None:
        """Refuse an entry that contradicts itself."""
        places = [place for place in (self.source, self.uri_env, self.uri_file) if place]
        if len(places) != 1:
            raise ConfigurationError.stating(
                "a data set has one place: a file (source), or the URI of a database in a variable "
                "(uri_env) or in a file (uri_file)"
            )
        if self.source is not None and "://" in self.source:
            raise ConfigurationError.stating(
                "the URI of a database may hold a password, which has no place in a catalogue or a "
                "command; put it into a variable (uri_env) or a file of your own (uri_file)"
            )
        if self.table is not None and self.query is not None:
            raise ConfigurationError.stating("a data set is a table or a query, not both")
        if self.source is None and not self.is_database:
            raise ConfigurationError.stating("a data set of a database needs a table or a query")
        if self.table_identity is not None and not self.table_identity.strip():
            raise ConfigurationError.stating("the identity of a table (table_identity) is empty")
        _check_columns(self)

    @property
    def is_database(self) -> bool:
        """Whether the data set is a table or a query, and not a whole file."""
        return self.table is not None or self.query is not None

    @property
    def place(self) -> str:
        """Return the source of the data set, without any secret."""
        if self.source is not None:
            return self.source
        return f"${self.uri_env}" if self.uri_env else f"URI in {self.uri_file}"


def _check_columns(entry: Entry) -> None:
    twice = set(entry.id) & set(entry.exclude)
    if twice:
        raise ConfigurationError(f"column {min(twice)!r} is an id and left out as well; choose one")
    if len(set(entry.id)) < len(entry.id):
        raise ConfigurationError.stating("an id column is named twice")
    if entry.id_rules != DEFAULT_RULES and not entry.id:
        raise ConfigurationError.stating("rules of ids (id_rules) are given, and no id column")
    typed = set(entry.types) & {*entry.id, *entry.exclude}
    if typed:
        raise ConfigurationError(f"column {min(typed)!r} has a type, but is no feature; remove it")


class EntryFolder:
    """The entries of one party."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._folder = home / FOLDER
        self._read: dict[str, tuple[object, Entry]] = {}  # with the file's time, size and inode

    def names(self) -> list[str]:
        """List the names of all data sets, sorted."""
        return sorted(path.stem for path in self._folder.glob("*.toml"))

    def read(self, name: str) -> Entry:
        """Read one entry; raises `DataError` if there is none."""
        path = self._path(name)
        try:
            status = path.stat() if _NAME.fullmatch(name) else None
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is None:
            raise DataError.of("data_set.unknown", data_set=name)
        state = (status.st_mtime_ns, status.st_size, status.st_ino)
        if name not in self._read or self._read[name][0] != state:
            self._read[name] = state, _read_entry(path)
        return self._read[name][1]

    def write(self, name: str, entry: Entry) -> None:
        """Add or replace an entry."""
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} cannot name a data set: a name has 1 to 64 letters, digits and inner "
                "'_' or '-'"
            )
        entry.check()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._path(name), _to_toml(entry).encode())

    def remove(self, name: str) -> None:
        """Remove a data set's entry; its source is not touched."""
        self.read(name)
        self._path(name).unlink()
        self.schema_path(name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Tell whether there is an entry of this name."""
        return bool(_NAME.fullmatch(name)) and self._path(name).exists()

    def schema_path(self, name: str) -> Path:
        """Return the path of the file with the columns that the data set had when added."""
        return self._folder / f"{name}.schema.json"

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.toml"


def _read_entry(path: Path) -> Entry:
    try:
        entry = msgspec.toml.decode(path.read_bytes(), type=Entry)
        entry.check()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, ConfigurationError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return entry


def _to_toml(entry: Entry) -> str:
    """Write an entry as TOML, without fields that have their defaults."""
    return "".join(f"{name} = {_value(value)}\n" for name, value in _chosen(entry).items())


def _chosen(fields: msgspec.Struct) -> dict[str, object]:
    """Return the fields that do not have their defaults."""
    default, given = msgspec.structs.asdict(type(fields)()), msgspec.structs.asdict(fields)
    return {name: value for name, value in given.items() if value != default[name]}


def _value(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        value = _chosen(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # a string of JSON is one of TOML, but for a character that only the latter escapes
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
