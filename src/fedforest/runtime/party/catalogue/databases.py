"""Read rows of databases as pyarrow tables: DuckDB and SQLite files, PostgreSQL.

Connections only read. A driver's error text may quote rows, addresses or passwords, so our errors
only tell its kind and, for PostgreSQL, the SQLSTATE.
"""

import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fedforest.errors import ConfigurationError, DataError
from fedforest.extras import explain_missing_extras
from fedforest.runtime.party.catalogue.batches import Take, read_all, read_cursor
from fedforest.runtime.party.catalogue.entries import Entry

_NOT_FOR_OTHERS = 0o077


def read_duckdb(name: str, path: Path, entry: Entry, take: Take = read_all) -> Any:
    """Read a table or query of a DuckDB file."""
    with explain_missing_extras(f"data set {name!r}"):
        import duckdb  # noqa: PLC0415 - an extra
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return take(connection.sql(_statement(entry)).to_arrow_reader())
    except duckdb.Error as error:
        raise _unreadable(name, type(error).__name__) from None


def read_sqlite(name: str, path: Path, entry: Entry, take: Take = read_all) -> Any:
    """Read a table or query of a SQLite file; columns that hold several types become text."""
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("BEGIN")  # so that two passes see the same rows
            return read_cursor(partial(connection.execute, _statement(entry)), take)
    except sqlite3.Error as error:
        raise _unreadable(name, type(error).__name__) from None


def read_postgresql(name: str, home: Path, entry: Entry, take: Take = read_all) -> Any:
    """Read a table or query of a PostgreSQL database."""
    with explain_missing_extras(f"data set {name!r}"):
        import adbc_driver_manager  # noqa: PLC0415 - an extra
        import adbc_driver_postgresql.dbapi  # noqa: PLC0415 - an extra
    uri = _find_uri(name, home, entry)
    try:
        with (
            adbc_driver_postgresql.dbapi.connect(uri) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(_statement(entry))
            return take(cursor.fetch_record_batch())
    except adbc_driver_manager.Error as error:
        state = f" {error.sqlstate}" if error.sqlstate else ""
        raise _unreadable(name, f"{type(error).__name__}{state}") from None


def _find_uri(name: str, home: Path, entry: Entry) -> str:
    """Find the URI of the database, which may hold a password."""
    if entry.uri_env is not None:
        uri = os.environ.get(entry.uri_env, "")
        if not uri:
            raise ConfigurationError.of("database.variable", data_set=name, variable=entry.uri_env)
        return uri
    assert entry.uri_file is not None
    path = home / entry.uri_file
    try:
        if path.stat().st_mode & _NOT_FOR_OTHERS:
            raise ConfigurationError.of("file.open", path=path)
        return path.read_text().strip()
    except OSError as error:
        raise ConfigurationError.of("file.unreadable", path=path, detail=error.strerror) from None


def _statement(entry: Entry) -> str:
    if entry.query is not None:
        return entry.query
    if entry.table is None:
        raise ConfigurationError.stating("a data set of a database needs a table or a query")
    quoted = (part.replace('"', '""') for part in entry.table.split("."))
    return "SELECT * FROM " + ".".join(f'"{part}"' for part in quoted)


def _unreadable(name: str, kind: str) -> DataError:
    return DataError.of("database.unreadable", data_set=name, detail=kind)
