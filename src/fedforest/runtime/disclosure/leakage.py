"""The leakage report of a run: in plain words, who learned what.

A sentence is here for everything in a message of the protocol and for what follows from it. It says
what a role could work out, not what it is expected to look at.
"""

import html
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from fedforest.privacy.spent import SpentPrivacy, summarise

COORDINATOR = "The coordinator"
EVERY_PARTY = "Every party"
LABEL_PARTY = "The label party"
USER = "The user"
EVERY_PREDICTION = "Every prediction"
NOBODY = "Nobody but its owner"
CAVEATS = "Not prevented"
_ORDER = (COORDINATOR, EVERY_PARTY, LABEL_PARTY, USER, EVERY_PREDICTION, NOBODY, CAVEATS)
IN_ONE_PROCESS = (
    "all parties ran in one process here: whoever controls it can read everything, the fitted "
    "estimator included. The lines above hold where every role runs on its own machine"
)
ON_THEIR_OWN = (
    "the lines above hold as long as nobody else controls a role's machine; what a role keeps on "
    "its disk while the run is under way (replies, bits, labels in the run's protection) is "
    "readable by whoever administers that machine"
)
SAFER_LEAF = 5  # rows; smaller groups are pointed out
LEFT_OUT = (
    "which way rows go that a tree left out: of these a single one may go its own way, as "
    "min_samples_leaf is about the rows that trees drew"
)


@dataclass(frozen=True, slots=True)
class Learned:
    """One thing that one role learned in a run."""

    who: str
    what: str


Grade = Literal["protected", "sums", "exposed"]
GRADES: Mapping[Grade, str] = {
    "protected": "nothing, or under noise or encryption",
    "sums": "sums over rows or parties, or parts of it",
    "exposed": "row by row, or close to it",
}


@dataclass(frozen=True, slots=True)
class Graded:
    """How much of one kind of data left its owner, and why it is graded so."""

    subject: str
    grade: Grade
    why: str


@dataclass(frozen=True, slots=True)
class LeakageReport:
    """Everything that roles learned beyond their own data; printing it gives the full text."""

    entries: tuple[Learned, ...]
    grades: tuple[Graded, ...] = ()  # the report in short

    def __iter__(self) -> Iterator[Learned]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def about(self, who: str) -> tuple[str, ...]:
        """List what one role learned."""
        return tuple(entry.what for entry in self.entries if entry.who == who)

    def __str__(self) -> str:
        lines = [f"{each.subject}: {each.grade} ({each.why})" for each in self.grades]
        lines += [""] if lines else []
        who = ""
        for entry in self.entries:
            if entry.who != who:
                who = entry.who
                lines.append(f"{who}:")
            lines.append(f"  - {entry.what}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<LeakageReport of {len(self)} entries; print it to read them>"

    def _repr_html_(self) -> str:
        """Return the grades as notebooks show them; who learned what, role by role, on demand."""
        rows = [
            f"<tr><td>{html.escape(each.subject)}</td><td title='{GRADES[each.grade]}'>"
            f"<b>{each.grade}</b></td><td>{html.escape(each.why)}</td></tr>"
            for each in self.grades
        ]
        table = f"<table>{''.join(rows)}</table>" if rows else ""
        by_role: dict[str, list[str]] = {}
        for entry in self.entries:
            by_role.setdefault(entry.who, []).append(f"<li>{html.escape(entry.what)}</li>")
        return table + "".join(
            f"<details><summary>{html.escape(who)} ({len(said)})</summary>"
            f"<ul>{''.join(said)}</ul></details>"
            for who, said in by_role.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalRun:
    """The circumstances that the report of a vertical training depends on."""

    parties: tuple[str, ...]
    label_party: str
    is_regression: bool
    label_epsilon: float  # of all fits so far; infinite where labels are not noisy
    is_weighted: bool  # rows have weights of their own
    has_class_weights: bool
    out_of_bag: bool  # rows that trees leave out are followed
    votes_released: bool  # and what trees say about them leaves the label party
    draws_rows: bool
    min_rows_leaf: int
    in_federation: bool = False  # every role was a process of its own
    from_zero: bool = False  # the criterion counts targets from zero
    encrypts_labels: bool = False  # only the label party can read them

    @property
    def is_noisy(self) -> bool:
        """Whether labels left their owner under randomized response only."""
        return math.isfinite(self.label_epsilon)


def report_vertical_forest(run: VerticalRun) -> LeakageReport:
    """Report what each role learned in training, and learns by predictions."""
    entries = [
        *_labels(run),
        *_weights(run),
        *_at_coordinator(run),
        *_at_parties(run),
        *_at_label_party(run),
        *_in_federation(run),
        *_in_predictions(),
        *served_rows(run),
        *_kept(run),
        *_caveats(run),
    ]
    return arrange(entries, grade_columns(run))


def arrange(entries: Iterable[Learned], grades: tuple[Graded, ...] = ()) -> LeakageReport:
    """Make a report, role by role."""
    return LeakageReport(tuple(sorted(entries, key=lambda entry: _ORDER.index(entry.who))), grades)


def grade_columns(run: VerticalRun) -> tuple[Graded, ...]:
    """Grade a training over columns."""
    labels = Graded("labels", "exposed", "as codes at the coordinator and every party")
    if run.is_noisy:
        how = f"randomized response, epsilon {run.label_epsilon:g}"
        labels = Graded("labels", "protected", how)
    elif run.encrypts_labels:
        labels = Graded("labels", "protected", "encrypted; only the label party reads them")
    return (
        labels,
        Graded("which rows go together", "exposed", "every role learns the rows of every node"),
        Graded("values of columns", "protected", "no value and no threshold leaves its owner"),
    )


def describe_spending(run: VerticalRun) -> SpentPrivacy:
    """Describe the privacy spent on labels, and what no noise protects."""
    if run.is_noisy:
        protected = (
            f"each row's label, by randomized response: epsilon = {run.label_epsilon:g} over all "
            "fits of this forest; every further fit on the same labels spends again"
        )
    elif run.encrypts_labels:
        protected = (
            "each row's label, from everybody but its owner, by encryption; what the shape of the "
            "trees says about labels is covered by no noise (epsilon is infinite)"
        )
    else:
        protected = "nothing: labels left their owner encoded, without noise (epsilon is infinite)"
    exposed = "labels left their owner encoded, without noise; see `leakage_`"
    if run.encrypts_labels:
        exposed = "labels left their owner encrypted, and the shape of trees follows from true ones"
    summary = summarise(
        run.label_epsilon,
        "all fits of this forest",
        against="everybody but the label party",
        uncovered="columns, which rows go together, numbers of rows and of classes",
        exposed=exposed,
    )
    figures = {
        "summary": summary,
        "label_epsilon": run.label_epsilon,
        "protected": protected,
        "not_protected": tuple(_unprotected(run)),
    }
    return SpentPrivacy.of(figures)


def _unprotected(run: VerticalRun) -> Iterator[str]:
    if not run.is_noisy:
        yield "labels: see `leakage_` for who learned them in which form"
    elif not run.is_regression:
        yield "the number of classes"
    yield "columns: every party with columns learns which rows go left or right at every split"
    yield "the numbers of rows and columns, and which rows each tree drew"
    if run.encrypts_labels:
        return
    if run.is_weighted:
        yield "the sample weights of rows"
    if run.has_class_weights:
        yield "the weights of classes"


def _labels(run: VerticalRun) -> Iterator[Learned]:
    if run.is_noisy:
        noisy = (
            f"a noisy label of every row (randomized response, epsilon = {run.label_epsilon:g} for "
            "each label over all fits of this forest)"
        )
        rest = (
            "sums, gains, leaves and out-of-bag scores were computed from the noisy labels and say "
            "nothing further about the true ones; the number of classes is exact"
        )
        yield Learned(COORDINATOR, f"{noisy}; {rest}")
        yield Learned(EVERY_PARTY, f"{noisy}, under permuted class codes; {rest}")
    elif run.is_regression:
        yield Learned(
            COORDINATOR,
            "the target of every row: it passes the targets on and is told their unit and origin",
        )
        yield Learned(
            EVERY_PARTY,
            "the target of every row up to an unknown unit: which are zero, and the ratio of any "
            "two; whoever knows one target above zero knows all"
            if run.from_zero
            else "the target of every row up to an unknown unit and origin: order and relative "
            "distances; whoever knows two targets knows all",
        )
    else:
        yield Learned(
            COORDINATOR,
            "the class number of every row: it passes the labels on and chose their codes. It is "
            "not told the classes' names, but numbers follow the names' order",
        )
        yield Learned(
            EVERY_PARTY,
            "which rows share a class, under permuted codes; class sizes, or one known label, may "
            "give away which code is which class",
        )


def _weights(run: VerticalRun) -> Iterator[Learned]:
    """A row's weight leaves as one number: its sample weight times that of the label that left."""
    if run.is_weighted:
        what = (
            "the sample weight of every row up to a common factor, without noise; sample weights "
            "that depend on labels give labels away"
        )
        yield Learned(COORDINATOR, what)
        yield Learned(EVERY_PARTY, what)
    if run.has_class_weights:
        what = (
            "the class weight of every row's noisy label, up to a common factor: it says nothing "
            "further about the true one"
            if run.is_noisy
            else "the class weight of every row, up to a common factor: it may give away which "
            "code is which class"
        )
        yield Learned(COORDINATOR, what)
        yield Learned(EVERY_PARTY, what)


def _at_coordinator(run: VerticalRun) -> Iterator[Learned]:
    yield Learned(COORDINATOR, "how many rows there are and how many columns each party has")
    yield Learned(
        COORDINATOR,
        "the best gain of every party at every open node, and who split each node: how useful "
        "each party's columns are, and where",
    )
    yield Learned(
        COORDINATOR,
        "which rows pass which node, what the labels of nodes add up to, and what leaves say",
    )
    yield Learned(
        COORDINATOR,
        "the importance of each party's columns, in the party's order and without names",
    )
    yield Learned(
        COORDINATOR, "the root seed, and with it the rows and columns drawn by every tree"
    )
    if run.out_of_bag:
        yield Learned(COORDINATOR, "the out-of-bag score after every tree")
        yield Learned(COORDINATOR, LEFT_OUT)
    if run.votes_released:
        yield Learned(
            COORDINATOR,
            "what the forest says about every training row by the trees that left it out",
        )


def _at_parties(run: VerticalRun) -> Iterator[Learned]:
    if run.draws_rows:
        yield Learned(EVERY_PARTY, "if it has columns: which rows each tree drew, and how often")
    yield Learned(EVERY_PARTY, "which of its own columns were sampled at each node")
    if len(run.parties) > 1:
        yield from _about_others(run)


def _about_others(run: VerticalRun) -> Iterator[Learned]:
    """Report what parties learn about each other."""
    yield Learned(
        EVERY_PARTY,
        "if it has columns: the shape of every tree and which rows pass which node, also where "
        "others split; so that rows on one side differ from the others in some column of somebody "
        "else, and, with the labels it was given, what nodes and leaves add up to",
    )
    yield Learned(
        EVERY_PARTY,
        "from the sampled columns and a public max_features, over many nodes, about how many "
        "columns the others have together",
    )
    yield Learned(
        EVERY_PARTY,
        "how much its own splits, and each tree in all, decreased impurity: so how much the "
        "others' columns helped together",
    )
    if len(run.parties) == 2:
        yield Learned(EVERY_PARTY, "with two parties: that a node it did not split, the other did")
    else:
        yield Learned(EVERY_PARTY, "where another party split a node, but not which one")
    if run.out_of_bag:
        yield Learned(EVERY_PARTY, f"if it has columns: {LEFT_OUT}")
    if run.min_rows_leaf < SAFER_LEAF:
        yield Learned(
            EVERY_PARTY,
            f"groups as small as {run.min_rows_leaf} row(s) that other parties' columns tell apart "
            f"(min_samples_leaf; {SAFER_LEAF} or more is safer)",
        )


def _in_federation(run: VerticalRun) -> Iterator[Learned]:
    """Report what goes through the coordinator because the user is another process."""
    if not run.in_federation:
        return
    yield Learned(
        COORDINATOR,
        "the names of data sets, of the label's column and, unless the label is a number, of the "
        "classes: it passes them on between the user and the label party",
    )
    yield Learned(
        USER,
        "whoever gave the order: the number and the importance of each party's columns, the names "
        "of classes, out-of-bag votes if asked for, and what the forest predicts",
    )


def served_rows(run: VerticalRun) -> Iterator[Learned]:
    """Report what pages show of trees, and what predictions of chosen rows add (`FindPlaces`)."""
    if not run.in_federation:
        return
    leaves = "" if run.encrypts_labels else ", and what its leaves say"
    yield Learned(
        USER,
        "whoever may see the model (its owner, scientists it is shared with, operators): the shape "
        f"of every tree and which party each split is of{leaves} (`ShowTree`, the dashboard); no "
        "column and no threshold",
    )
    yield Learned(
        EVERY_PREDICTION,
        "of single rows under a standing alignment, where all parties serve them "
        "(`standing_serving`), tells the coordinator and the parties the numbers of these rows in "
        "the common order: which predictions are of the same row, over time",
    )
    yield Learned(
        EVERY_PREDICTION,
        "of rows that are named by ids tells the coordinator these ids and which of them all "
        "parties have, and the party that finds them which ids were asked for; the other parties "
        "are told numbers only",
    )


def _at_label_party(run: VerticalRun) -> Iterator[Learned]:
    if run.out_of_bag:
        yield Learned(
            LABEL_PARTY,
            "what every leaf says, and the leaves that rows reach in trees that left them out: "
            f"{run.label_party!r} counts the out-of-bag votes",
        )


def _in_predictions() -> Iterator[Learned]:
    yield Learned(
        EVERY_PREDICTION,
        "tells the coordinator which leaf each row reaches in each tree, what the forest predicts "
        "for it, and what splits say about it that lie off its path within the lookahead "
        "(prediction=1 tells least, 'one_round' most)",
    )
    yield Learned(
        EVERY_PREDICTION,
        "tells every party that split a node how many rows are predicted and, unless one exchange "
        "settles all levels ('one_round'), which way each row went so far, also at others' splits",
    )


def _kept(run: VerticalRun) -> Iterator[Learned]:
    yield Learned(
        NOBODY,
        "holds column values, edges between bins, thresholds, categories and column names: no "
        "message carries them",
    )
    what = "the unnoised labels" if run.is_noisy else "the names of classes"
    if not run.is_regression and (run.is_noisy or not run.in_federation):
        yield Learned(NOBODY, f"holds {what} ({run.label_party!r} is their owner)")


def _caveats(run: VerticalRun) -> Iterator[Learned]:
    yield Learned(CAVEATS, ON_THEIR_OWN if run.in_federation else IN_ONE_PROCESS)
    yield Learned(
        CAVEATS,
        "which rows go together in nodes is hidden from nobody who has columns; over many trees "
        "this can be used to reconstruct labels or to group rows by others' columns",
    )
    yield Learned(
        CAVEATS, "roles that put together what they know (say a party and the coordinator)"
    )
    if run.is_noisy:
        yield Learned(
            CAVEATS,
            "training again on the same labels: noise is drawn anew, so epsilons of fits add up",
        )
