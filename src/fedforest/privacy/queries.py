"""The number of queries about one row's label in a training."""

from dataclasses import dataclass

from fedforest.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Queries:
    """Every row answers once per candidate feature, level and tree.

    Nodes of one level hold different rows, so they count once. `levels` counts the exchanges in
    which a row can be asked, so a node that is asked about further candidates at the same depth
    adds one; None where nothing limits them. Both sides of a candidate are one query: a row is on
    one of them.
    """

    candidates: int
    levels: int | None
    trees: int

    def __post_init__(self) -> None:
        numbers = (self.candidates, 0 if self.levels is None else self.levels, self.trees)
        if min(numbers) < 0:
            raise ConfigurationError(f"{self!r}: none of these numbers may be negative.")

    @property
    def count(self) -> int | None:
        """All queries that one label takes part in; None where they are not limited."""
        if self.levels is None:
            return None
        return self.candidates * self.levels * self.trees
