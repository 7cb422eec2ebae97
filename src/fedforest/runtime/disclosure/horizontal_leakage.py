"""The leakage report of a horizontal training: in plain words, who learned what.

A sentence is here for everything in a message of the protocol and for what follows from it. It says
what a role could work out, not what it is expected to look at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fedforest.privacy.composition import PrivacySpending
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.runtime.disclosure.leakage import (
    CAVEATS,
    COORDINATOR,
    EVERY_PARTY,
    EVERY_PREDICTION,
    IN_ONE_PROCESS,
    NOBODY,
    ON_THEIR_OWN,
    SAFER_LEAF,
    Graded,
    LeakageReport,
    Learned,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalRun:
    """The circumstances that the report of a horizontal training depends on."""

    n_parties: int
    n_trees: int
    n_columns: int
    candidates: int  # columns that a node is asked about
    is_regression: bool
    aggregation: Masked | Ring | Shamir | None
    spending: PrivacySpending
    participation: float
    scope: str
    least_participants: int  # so many parties are always drawn together
    is_weighted: bool
    is_balanced: bool  # class weights follow the numbers of rows
    has_categories: bool
    draws_rows: bool  # by chance: trees see a part of the rows, or some of them twice
    min_rows_leaf: int
    min_rows_split: int
    is_seeded: bool  # parties' randomness came from the random state
    in_federation: bool = False  # every role was a process of its own

    @property
    def noise(self) -> Literal["none", "local", "global"]:
        """Name the place where noise was added, if any."""
        return self.spending.mechanism

    @property
    def statistic(self) -> str:
        """Name the numbers that parties add up."""
        return "sums of targets" if self.is_regression else "class counts"

    @property
    def smallest_node_asked(self) -> int:
        """Rows that a node has at least if parties are asked about it."""
        return max(self.min_rows_split, 2 * self.min_rows_leaf)

    @property
    def points_at_root(self) -> float:
        """Return how many points of one column a party tells about all its rows, on average."""
        return self.n_trees * self.share_of_trees * self.candidates / max(1, self.n_columns)

    @property
    def n_blocks(self) -> int:
        """Parts of the parties that are drawn as a whole, where trees or runs draw them."""
        return max(1, self.n_parties // max(1, self.least_participants))

    @property
    def share_of_trees(self) -> float:
        """In which share of the trees a party takes part: draws of no block at all are repeated."""
        if self.scope == "step":
            return self.participation
        return self.participation / (1.0 - (1.0 - self.participation) ** self.n_blocks)


def report_horizontal_forest(run: HorizontalRun) -> LeakageReport:
    """Report what each role learned while extra-trees were trained over rows of several parties."""
    entries = [
        *_statistics(run),
        *_points(run),
        *_declared(run),
        *_own_sums(run),
        *_at_parties(run),
        *_in_predictions(),
        *_kept(run),
        *_caveats(run),
    ]
    return LeakageReport(tuple(entries), _grade(run))


def _grade(run: HorizontalRun) -> tuple[Graded, ...]:
    """Grade a training over rows."""
    columns = "random points inside a party's ranges, over many trees close to the ranges"
    sizes = "exact numbers of rows beside every cut"
    if run.aggregation is not None:
        sizes += f", of {run.least_participants} or more parties together"
    leaves = "exact leaves; small ones tell single labels"
    if run.noise != "none":
        leaves = "leaves made of noisy labels"
    elif run.min_rows_leaf >= SAFER_LEAF:
        leaves = f"exact leaves of {run.min_rows_leaf} rows or more"
    is_small = run.noise == "none" and run.min_rows_leaf < SAFER_LEAF
    return (
        _grade_labels(run),
        Graded("values of columns", "sums", columns),
        Graded("numbers of rows", "sums", sizes),
        Graded("what the model tells", "exposed" if is_small else "sums", leaves),
    )


def _grade_labels(run: HorizontalRun) -> Graded:
    if run.noise != "none":
        return Graded("labels", "protected", f"noise, epsilon {run.spending.epsilon:.3g}")
    if run.aggregation is None:
        return Graded("labels", "exposed", "exact sums of each party, of single rows, too")
    if run.participation < 1.0 and run.scope == "step":
        return Graded("labels", "exposed", "differences of sums are a party's own")
    together = f"exact sums of {run.least_participants} or more parties together"
    return Graded("labels", "sums", together)


def _statistics(run: HorizontalRun) -> Iterator[Learned]:
    """Report what the answers to `Count` tell the coordinator."""
    where = "on each side of every candidate split of every node, also of splits not made"
    if run.aggregation is None:
        whose = "of every party by itself"
    else:
        whose = "of the parties together that took part in the tree or step, not of a single one"
    yield Learned(COORDINATOR, f"{_protected_sums(run)} {whose}, {where}")
    exact = "the exact number of rows" if run.noise != "none" else "from it, the number of rows"
    yield Learned(COORDINATOR, f"{exact} {whose}, on each side of every candidate split")
    yield from _single_rows(run)
    if run.is_weighted:
        yield Learned(COORDINATOR, f"what weights of rows add up to {whose}, in the same places")
    if run.is_balanced:
        yield Learned(COORDINATOR, f"the number of rows of each class {whose}, for class_weight")


def _single_rows(run: HorizontalRun) -> Iterator[Learned]:
    """Report sums over a few rows: a cut is counted before it is known to be too uneven."""
    told = f"the exact {run.statistic} of such a side are that row's label"
    if run.noise != "none":
        told = "the sums of such a side are of that row's label alone, under its noise"
    yield Learned(
        COORDINATOR,
        f"sides of candidate cuts may hold a single row: {told}. min_samples_leaf does not prevent "
        "it, as it is applied afterwards, to the splits that are made",
    )
    if run.aggregation is None and run.n_parties > 1:
        yield Learned(
            COORDINATOR,
            "the same of single rows of a party in nodes and leaves: what makes these large enough "
            "is the rows of all parties together",
        )


def _protected_sums(run: HorizontalRun) -> str:
    if run.noise == "local":
        return (
            "sums of the bits of noisy labels (local differential privacy, epsilon = "
            f"{run.spending.epsilon:.3g} for each label over this training)"
        )
    if run.noise == "global":
        return (
            f"{run.statistic} with Laplace noise that each party added (epsilon = "
            f"{run.spending.epsilon:.3g} for each label over this training)"
        )
    return f"the exact {run.statistic}"


def _points(run: HorizontalRun) -> Iterator[Learned]:
    """Report the answers to `ProposeThresholds`: no aggregation and no noise covers them."""
    n_points = run.points_at_root
    yield Learned(
        COORDINATOR,
        "of every party by itself, for every node and candidate column, one random value inside "
        "the range of the party's rows there. Over many trees they enclose the range: about "
        f"{n_points:.3g} points of a column at the roots leave some 1/{n_points + 1:.3g} of the "
        "party's range at either end unseen, and points of deeper nodes narrow it further",
    )
    yield Learned(
        COORDINATOR,
        "which party abstains where: that it has fewer than two rows with a value in the node, or "
        "one value only",
    )
    if run.has_categories:
        yield Learned(
            COORDINATOR, "of every party by itself, where it has rows of at least two categories"
        )


def _declared(run: HorizontalRun) -> Iterator[Learned]:
    """Report what parties declare before the first tree."""
    more = ", the categories it has of each" if run.has_categories else ""
    yield Learned(
        COORDINATOR,
        f"of every party by itself: how many rows it has, its columns' names and kinds{more}, and "
        "which of them have missing values",
    )
    if run.is_regression:
        bounds = (
            "the declared bounds of targets, and nothing of theirs beyond it"
            if run.noise == "global"
            else "of every party by itself, the power of two above its largest target"
        )
        yield Learned(COORDINATOR, bounds)
    else:
        yield Learned(COORDINATOR, "of every party by itself, which classes it has")
    if run.is_weighted:
        yield Learned(COORDINATOR, "of every party, the power of two above its largest weight")


def _own_sums(run: HorizontalRun) -> Iterator[Learned]:
    """Report protected sums of a single party, and how other messages tell whose they are."""
    if run.aggregation is None:
        return
    noisy = "noisy " if run.noise != "none" else ""
    if run.smallest_node_asked <= 2:
        yield Learned(
            COORDINATOR,
            f"a party's own {noisy}{run.statistic} in nodes of two rows where it alone names a "
            "point: it has two rows there at least, so both are its own. Trees that are grown out "
            "end in many such nodes; with min_samples_leaf=2 or more none is asked about",
        )
    yield Learned(
        COORDINATOR,
        f"about a party's own {noisy}{run.statistic} in larger nodes where it alone names points: "
        "the others have one row or none there, unless their rows agree in all candidate columns",
    )
    if not run.is_regression:
        yield Learned(
            COORDINATOR,
            f"of a class that one party alone has, that party's own {noisy}counts in every node "
            "and on each side of every candidate split: nobody else adds to them",
        )


def _at_parties(run: HorizontalRun) -> Iterator[Learned]:
    yield Learned(
        EVERY_PARTY,
        "the finished model: every split with its threshold, and what every leaf says; and how "
        "much each column helped in each tree. Thresholds lie inside the range of all rows",
    )
    if run.n_parties > 1:
        yield from _about_others(run)
    if run.aggregation is not None:
        yield Learned(
            EVERY_PARTY,
            "who takes part in each sum that it takes part in, which parties take part only "
            "together, and which have no rows",
        )
    elif run.participation < 1.0:
        yield Learned(EVERY_PARTY, "which trees have the same participants, not who they are")


def _about_others(run: HorizontalRun) -> Iterator[Learned]:
    union = "columns" if run.is_regression else "columns and classes"
    more = " and their categories" if run.has_categories else ""
    yield Learned(EVERY_PARTY, f"all parties' {union}{more}, not whose they are")
    yield Learned(
        EVERY_PARTY,
        "every threshold that was tried, and by the splits made, how its own rows and the others' "
        "together were told apart",
    )
    if run.noise != "none":
        return
    exact = (
        "means of leaves"
        if run.is_regression
        else "class shares of leaves, which are fractions of whole numbers of rows: a third means "
        "3 rows, or 6, and so on"
    )
    small = (
        f"; leaves may hold {run.min_rows_leaf} row(s), and then they tell single rows' labels "
        f"(min_samples_leaf; {SAFER_LEAF} or more is safer)"
        if run.min_rows_leaf < SAFER_LEAF
        else ""
    )
    yield Learned(
        EVERY_PARTY,
        f"exact {exact}. It can take out its own rows: if one row is left, that row's label. "
        f"Leaves without own rows are others'{small}",
    )


def _in_predictions() -> Iterator[Learned]:
    yield Learned(
        EVERY_PREDICTION,
        "is made by whoever holds the model, without any message: it tells nobody anything",
    )


def _kept(run: HorizontalRun) -> Iterator[Learned]:
    yield Learned(
        NOBODY,
        "holds rows: no value of a row, no label of a row and no list of rows is in any message",
    )
    if run.aggregation is not None:
        classes = "" if run.is_regression else ", and of classes that it alone has"
        yield Learned(
            NOBODY,
            f"learns a party's own {run.statistic} while nobody colludes, except, as said above, "
            f"the coordinator: in nodes where that party alone names points{classes}",
        )
    if run.noise == "local":
        yield Learned(NOBODY, "sees labels without noise; the noise is added row by row")


def _caveats(run: HorizontalRun) -> Iterator[Learned]:
    yield Learned(CAVEATS, ON_THEIR_OWN if run.in_federation else IN_ONE_PROCESS)
    if run.is_seeded:
        yield Learned(
            CAVEATS,
            "random_state was given, so points, keys, masks and noise were drawn from it, too: "
            "whoever knows it can undo them. That is for simulations; with random_state=None, and "
            "always in a real federation, they come from the system's entropy",
        )
    yield from _collusion(run)
    yield from _differences(run)
    yield from _noise_limits(run)
    yield Learned(
        CAVEATS,
        "whoever holds the model can test guesses about rows on it, and show it to others",
    )


def _collusion(run: HorizontalRun) -> Iterator[Learned]:
    """Report which roles together can expose one party's sums."""
    protection, together = run.aggregation, "can expose a party's sums"
    if isinstance(protection, Masked):
        peers = "all other participants" if protection.k is None else f"{protection.k} of its peers"
        fewer = "" if protection.k is None else " (fewer peers where fewer take part)"
        yield Learned(CAVEATS, f"the coordinator and {peers}{fewer} together {together}")
    elif isinstance(protection, Ring):
        yield Learned(
            CAVEATS, f"the coordinator and the next party in the ring together {together}"
        )
    elif isinstance(protection, Shamir):
        yield Learned(
            CAVEATS,
            f"{protection.threshold} holders of shares together, the coordinator among them or "
            f"not, {together}",
        )
    else:
        return
    if run.n_parties == 2:
        yield Learned(
            CAVEATS, "with two parties, the coordinator and either of them know the other's sums"
        )
    yield Learned(
        CAVEATS,
        "a coordinator that sits between parties when they exchange keys reads everything; parties "
        "must compare their fingerprints by another way",
    )


def _differences(run: HorizontalRun) -> Iterator[Learned]:
    """Report what sums over changing sets of parties tell by their differences."""
    if run.aggregation is None:
        return
    noisy = "noisy " if run.noise != "none" else ""
    if run.participation < 1.0 and run.scope == "step":
        yield Learned(
            CAVEATS,
            "parties were drawn anew at every step (participation_scope='step'): the difference of "
            "two sums over the same rows, such as a node's before and after it is split, is the "
            f"{noisy}sum of one party alone. 'tree' is safer, 'run' safest",
        )
    elif run.participation < 1.0 and run.scope == "tree" and run.n_blocks > 1:
        yield Learned(
            CAVEATS,
            f"trees have different parties, drawn in blocks of at least {run.least_participants}: "
            f"differences of the sums at roots tell each block's {noisy}{run.statistic} over all "
            f"its rows, {_exactly(run)}, though nothing of a party apart from its block, and "
            "nothing of its nodes. participation_scope='run' prevents it",
        )
    if run.noise == "none" and run.n_blocks > 1:  # with noise, or one block, the run ends
        yield Learned(
            CAVEATS,
            f"if a party is lost, or is said to be, its block of at least {run.least_participants} "
            "parties leaves the run as a whole, and the trees that were growing are begun anew. "
            f"Sums before and after differ by that block's {run.statistic}, exactly, in every node "
            "that is asked about again, and by nothing of a single party of it",
        )
    yield Learned(
        CAVEATS,
        "sums of one run are held against each other, those of different runs are not: after a "
        "second run over the same rows without one of the parties, the difference is that party's "
        f"own {noisy}{run.statistic}. Parties see their own runs only; noise is what helps",
    )


def _exactly(run: HorizontalRun) -> str:
    """Report how closely the sums of roots, of which there are many, tell those of blocks."""
    if run.noise != "none":
        return "more closely the more trees there are, as far as epsilon allows"
    if run.draws_rows:
        return "up to the chance with which rows were drawn, which averages out over many trees"
    return "exactly"


def _noise_limits(run: HorizontalRun) -> Iterator[Learned]:
    if run.noise == "none":
        return
    yield Learned(
        CAVEATS,
        "noise covers labels only: columns, thresholds, branch sizes and who has which class are "
        "exact. See `privacy_spent_` for the arithmetic",
    )
    if run.noise == "global":
        yield Learned(
            CAVEATS,
            "a party adds the noise to exact statistics of its own rows: the people behind the "
            "rows must fully trust it",
        )
        yield Learned(
            CAVEATS, "training again on the same labels spends again: epsilons of fits add up"
        )
    else:
        yield Learned(CAVEATS, _permanent_limits(run))


def _permanent_limits(run: HorizontalRun) -> str:
    """How long the cap of permanent answers holds for a row."""
    if not run.in_federation:
        return (
            "every fit in one process draws permanent answers under a new key, and what the "
            "answers of several fits tell adds up"
        )
    return (
        "the cap holds for a row while its party knows it: by its id, or by the content of all its "
        "columns where no id is configured. A row that changes in that counts as another row: its "
        "versions have a cap each, of which one is booked. Answers under another label column, "
        "table or parameters are drawn anew; their cap is booked, and adds up"
    )
