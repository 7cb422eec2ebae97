"""Tables that are read in pieces, some rows at a time, as often as needed.

Binning and rounding read any table this way: a table in memory is one piece, one that is larger
than memory comes piece by piece from where it is stored. Every pass gives the same rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from fedforest.tree.table.frames import Table

# (shape, dtype) -> an array whose contents are still to be written: where large arrays live
Allocate: TypeAlias = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]


class TablePiece(NamedTuple):
    """Some rows of a table, and their places in it."""

    table: "Table"
    places: range | NDArray[np.int64]

    def is_whole_of(self, n_rows: int) -> bool:
        """Return whether these are all rows of a table of `n_rows`, in their order."""
        return isinstance(self.places, range) and self.places == range(n_rows)

    def find(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the piece holds those of these rows that it has; rows are ascending."""
        if isinstance(self.places, range):
            first, last = np.searchsorted(rows, (self.places.start, self.places.stop))
            return rows[first:last] - self.places.start
        at = np.minimum(np.searchsorted(rows, self.places), max(0, len(rows) - 1))
        return np.flatnonzero(rows[at] == self.places) if len(rows) else rows

    def write(self, values: NDArray[Any], target: NDArray[Any]) -> None:
        """Write values (columns, rows of the piece) to their places in (columns, rows)."""
        places = self.places
        at = slice(places.start, places.stop) if isinstance(places, range) else places
        target[:, at] = values


class TableSource(Protocol):
    """A table whose rows are read when they are needed."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def has_names(self) -> bool:
        """Whether the names are the owner's."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    def n_features(self) -> int:
        """The number of columns."""

    def take(self, features: Sequence[int]) -> "TableSource":
        """Return the table of these columns, in this order."""

    def take_rows(self, rows: NDArray[np.int64]) -> "TableSource":
        """Return the table of these rows, in this order."""

    def take_span(self, first: int, last: int) -> "TableSource":
        """Return the table of the rows first..last, which are read alone."""

    def pieces(self) -> Iterator[TablePiece]:
        """Read all rows once; a table without rows is one empty piece."""

    def load(self) -> "Table":
        """Return the table in memory, for what needs all rows at once."""
