"""One table or figure of a paper: what is measured, how it is judged, and how it is drawn.

An experiment lists cells; a runner measures each cell repetition by repetition and keeps what it
gets; the report and the figure are made from what is kept alone, however much of it is there.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fedforest.experiments.data.reading import PaperTable, read_table
from fedforest.experiments.findings import Finding
from fedforest.experiments.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Measured: TypeAlias = dict[str, float]

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested here"


class Cell(NamedTuple):
    """A method on a data set at a point of a curve; `measure` takes the number of a repetition.

    Cells with equal `group` that follow each other take turns, so that none is always first.
    """

    group: str
    method: str
    point: str
    repetitions: int
    measure: Callable[[int], Measured]


class Check(NamedTuple):
    """A conclusion of a paper, whether it holds here, and by which figures or why not."""

    claim: str
    verdict: str
    why: str
    cause: str = ""  # where it does not hold: what explains that, from what was measured


class Report(NamedTuple):
    """Everything that an experiment says: tables, verdicts, and what a reader must know."""

    tables: Sequence[Finding]
    checks: Sequence[Check]
    notes: Sequence[str] = ()


@dataclass(slots=True)
class Setting:
    """The way in which experiments are run: seed, size, and where their tables come from."""

    seed: int = 0
    quick: bool = False
    synthetic: bool = False
    n_jobs: int = 2
    again: bool = False  # forget what was measured before
    deadline: float | None = None  # on the monotonic clock: no repetition begins later
    most_repetitions: int | None = None  # of a cell; None: as many as it names
    stack: ExitStack = field(default_factory=ExitStack)  # closed when the experiment ends
    record: Record | None = None  # of the experiment under way: later cells may use earlier ones
    _tables: dict[str, PaperTable] = field(default_factory=dict)

    def read(self, name: str) -> PaperTable:
        """Return a data set, in a quick run some of its rows."""
        if name not in self._tables:
            table = read_table(name, synthetic=self.synthetic, quick=self.quick)
            self._tables = {name: table}  # one at a time: some are large
        return self._tables[name]

    def times(self, full: int, quick: int = 2) -> int:
        """Return a number of repetitions, or of anything that a quick run has less of."""
        return min(full, quick) if self.quick else full

    def describe(self) -> dict[str, Any]:
        """Return the facts under which measurements are comparable."""
        return {"seed": self.seed, "quick": self.quick, "synthetic": self.synthetic}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure under the name that `fedforest reproduce` knows it by."""

    name: str
    title: str
    source: str
    data: tuple[str, ...]
    cells: Callable[[Setting], Iterator[Cell]]
    report: Callable[[Record], Report]
    draw: Callable[[Record], "Figure"]
    full_run: str  # how long the full run takes
    extras: tuple[str, ...] = ()  # libraries that it needs besides


def judge(claim: str, *, holds: bool | None, why: str, cause: str = "") -> Check:
    """Return the check of a claim; `holds` is None where nothing can be said.

    The cause explains a claim that does not hold, and is left out where it does.
    """
    verdict = UNTESTED if holds is None else HOLDS if holds else FAILS
    return Check(claim, verdict, why, cause if verdict == FAILS else "")
