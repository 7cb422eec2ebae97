"""The leakage report of a run: in plain words, who learned what."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedforest.privacy.randomized_response import RandomizedResponse


@dataclass(frozen=True, slots=True)
class Learned:
    """One thing that one role learned in a run."""

    who: str
    what: str


@dataclass(frozen=True, slots=True)
class LeakageReport:
    """Everything that roles learned beyond their own data."""

    entries: tuple[Learned, ...]

    def __iter__(self) -> Iterator[Learned]:
        return iter(self.entries)

    def __str__(self) -> str:
        lines: list[str] = []
        who = ""
        for entry in self.entries:
            if entry.who != who:
                who = entry.who
                lines.append(f"{who}:")
            lines.append(f"  - {entry.what}")
        return "\n".join(lines)


COORDINATOR, EVERY_PARTY, NOBODY = "The coordinator", "Every party", "Nobody but its owner"


@dataclass(frozen=True, slots=True)
class VerticalRun:
    """What the report of a vertical training depends on."""

    n_parties: int
    label_party: str
    is_regression: bool
    response: RandomizedResponse | None
    is_weighted: bool
    out_of_bag: bool
    min_rows_leaf: int


def report_vertical_training(run: VerticalRun) -> LeakageReport:
    """Who learned what while a Federated Forest was trained."""
    entries = [*_labels(run), *_at_parties(run), *_at_coordinator(run)]
    entries.append(
        Learned(NOBODY, "column values, bin edges, thresholds and column names: they never left")
    )
    entries.sort(key=lambda entry: [COORDINATOR, EVERY_PARTY, NOBODY].index(entry.who))
    return LeakageReport(tuple(entries))


def _labels(run: VerticalRun) -> list[Learned]:
    if run.response is not None:
        what = (
            f"a noisy label of every row (randomized response, epsilon = {run.response.epsilon:g} "
            "for each label, once); sums, gains, leaves and scores were computed from the noisy "
            "labels and reveal nothing further about the true ones"
        )
    elif run.is_regression:
        what = (
            "the target of every row up to an unknown unit and origin: their order and their "
            "relative distances"
        )
    else:
        what = (
            "which rows share a class, under permuted codes; the class sizes may give away which "
            "code is which class"
        )
    entries = [Learned(EVERY_PARTY, what), Learned(COORDINATOR, f"in transit, {what}")]
    if run.is_regression:
        entries.append(
            Learned(COORDINATOR, "unit and origin of the targets, so the targets themselves")
        )
    if run.is_weighted:
        entries.append(Learned(EVERY_PARTY, "the weight of every row, up to a common factor"))
    return entries


def _at_parties(run: VerticalRun) -> list[Learned]:
    entries = [
        Learned(EVERY_PARTY, "the shape of every tree and which rows pass which node"),
        Learned(
            EVERY_PARTY,
            "how many of its own columns were sampled at each node; with a public max_features, "
            "over many nodes, about how many columns the others have together",
        ),
        Learned(EVERY_PARTY, "which rows each tree drew"),
    ]
    if run.n_parties == 2:
        entries.append(
            Learned(EVERY_PARTY, "with two parties: that a node it did not split, the other did")
        )
    if run.min_rows_leaf < 5:
        entries.append(
            Learned(
                EVERY_PARTY,
                f"groups as small as {run.min_rows_leaf} row(s) that other parties' columns tell "
                "apart (min_samples_leaf; 5 or more is safer)",
            )
        )
    return entries


def _at_coordinator(run: VerticalRun) -> list[Learned]:
    entries = [
        Learned(COORDINATOR, "the best gain of every party at every open node, and who split it"),
        Learned(COORDINATOR, "which rows pass which node, what leaves say, and the root seed"),
        Learned(COORDINATOR, "each party's number of columns and their importances, not names"),
    ]
    if run.out_of_bag:
        entries.append(
            Learned(COORDINATOR, "the out-of-bag score and the prediction for every training row")
        )
    return entries
