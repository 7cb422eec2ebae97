"""The identity of the table behind a data set, to which all memory about rows belongs.

Several entries may read one table. It has one identity, so that they share its ledger, its ceiling
and its permanent responses: the one that the owner declares (`table_identity`), else the place of
the table. A query is a table of its own unless the owner declares which table its rows are of.
"""

from pathlib import Path

from fedforest.runtime.party.catalogue.entries import Entry, EntryFolder


def identify_table(home: Path, entry: Entry) -> str:
    """Return the identity of an entry's table, which holds no secret."""
    if entry.table_identity is not None:
        return entry.table_identity
    if entry.table is not None:
        # tables of DuckDB and SQLite are found in upper and lower case alike
        return f"{_place(home, entry)}#{entry.table.casefold() if entry.source else entry.table}"
    if entry.query is not None:
        return f"{_place(home, entry)}?{' '.join(entry.query.split())}"
    return _place(home, entry)


def _place(home: Path, entry: Entry) -> str:
    """Return where the source is: below the party's folder as seen from there, else in full."""
    named = entry.source or entry.uri_file
    if named is None:
        return entry.place
    whole, folder = (home / named).resolve(), home.resolve()
    inside = whole.is_relative_to(folder)
    return f"file:{whole.relative_to(folder).as_posix() if inside else whole.as_posix()}"


def find_table(entries: EntryFolder, name: str) -> str:
    """Return the identity of a data set's table; a name without an entry has its own."""
    if not entries.has(name):
        return f"data set:{name}"
    return identify_table(entries.home, entries.read(name))


def list_sharing(entries: EntryFolder, name: str) -> list[str]:
    """List the data sets that read the same table, this one among them.

    Raises `ConfigurationError` for an unreadable entry, which could name the same table.
    """
    table = find_table(entries, name)
    sharing = {other for other in entries.names() if find_table(entries, other) == table}
    return sorted({name, *sharing})
