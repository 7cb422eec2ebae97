"""What a plan has to know of a run beside its request: the sizes of tables, and of labels."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.limits import number, whole
from fedforest.runtime.messages.orders import AnyRun

_ROWS, _COLUMNS, _CLASSES = whole(1), whole(0), whole(2)
_BOUND = number("a number of at least 0", 0.0, float("inf"))
STANDARD_CLASSES = 2


class PlannedTable(msgspec.Struct, frozen=True):
    """The size of one party's table, without label, ids and weights."""

    n_rows: int
    n_columns: int
    n_categorical: int = 0  # of the columns

    def check(self, party: str) -> None:
        """Refuse what no table has."""
        what = f"the table of {party!r}"
        _ROWS.check(f"rows of {what}", self.n_rows)
        _COLUMNS.check(f"columns of {what}", self.n_columns)


class PlannedLine(msgspec.Struct, frozen=True):
    """The line between a party and the coordinator; the defaults are those of one process."""

    latency_seconds: float = 0.0  # there and back
    bytes_per_second: float = float("inf")
    coordinator_bytes_per_second: float = float("inf")  # of the coordinator's line, for all parties

    def check(self) -> None:
        """Refuse what no line has."""
        _BOUND.check("latency", self.latency_seconds)
        for bandwidth in (self.bytes_per_second, self.coordinator_bytes_per_second):
            if not bandwidth > 0.0:
                raise ConfigurationError(f"bandwidth is {bandwidth!r}; it must be above 0")

    def transfer_seconds(self, n_bytes: float, all_bytes: float) -> float:
        """Return the time of the bytes of one party, and of all at the coordinator."""
        own = n_bytes / self.bytes_per_second
        return max(own, all_bytes / self.coordinator_bytes_per_second)


class PlannedTables(msgspec.Struct, frozen=True):
    """The tables of all parties, and how many classes the label has (regression: none)."""

    by_party: Mapping[str, PlannedTable]
    n_classes: int = STANDARD_CLASSES
    is_weighted: bool = False

    @property
    def most_rows(self) -> int:
        """The rows of the longest table."""
        return max(table.n_rows for table in self.by_party.values())

    @property
    def all_rows(self) -> int:
        """The rows of all tables together."""
        return sum(table.n_rows for table in self.by_party.values())

    @property
    def most_columns(self) -> int:
        """The columns of the widest table."""
        return max(table.n_columns for table in self.by_party.values())

    @property
    def all_columns(self) -> int:
        """The columns of all tables together."""
        return sum(table.n_columns for table in self.by_party.values())

    def check(self, parties: Mapping[str, object]) -> None:
        """Refuse tables of other parties than take part."""
        for party in parties:
            if party not in self.by_party:
                raise ConfigurationError(f"the size of the table of party {party!r} is missing")
            self.by_party[party].check(party)
        others = self.by_party.keys() - parties.keys()
        if others:
            raise ConfigurationError(f"party {min(others)!r} has a size, and takes no part")
        _CLASSES.check("n_classes", self.n_classes)


def tables_of(order: AnyRun, sizes: Mapping[str, tuple[int, int]]) -> PlannedTables:
    """Return the tables of a run, from the sizes of data sets with label and weight."""
    label_party: Any = getattr(order, "label_party", None)
    n_named = 1 + (getattr(order, "weight", None) is not None)
    tables = {}
    for party, (n_rows, n_columns) in sizes.items():
        n_own = n_named if label_party in (None, party) else 0
        tables[party] = PlannedTable(n_rows, max(0, n_columns - n_own))
    return PlannedTables(tables)
