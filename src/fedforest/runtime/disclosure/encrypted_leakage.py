"""The leakage report of a vertical training whose labels are encrypted.

A sentence is here for everything in a message of the protocol and for what follows from it; what
is the same in every vertical training is told by `leakage.py`.
"""

from collections.abc import Iterator

from fedforest.runtime.disclosure.leakage import (
    CAVEATS,
    COORDINATOR,
    EVERY_PARTY,
    EVERY_PREDICTION,
    IN_ONE_PROCESS,
    LABEL_PARTY,
    LEFT_OUT,
    NOBODY,
    ON_THEIR_OWN,
    SAFER_LEAF,
    USER,
    LeakageReport,
    Learned,
    VerticalRun,
    arrange,
    grade_columns,
    served_rows,
)


def report_encrypted_forest(run: VerticalRun) -> LeakageReport:
    """Report what each role learned in training, and learns by predictions."""
    return arrange(
        [
            *_at_coordinator(run),
            *_at_parties(run),
            *_at_label_party(run),
            *_at_user(run),
            *_in_predictions(),
            *served_rows(run),
            *_kept(run),
            *_caveats(run),
        ],
        grade_columns(run),
    )


def _at_coordinator(run: VerticalRun) -> Iterator[Learned]:
    yield Learned(COORDINATOR, "how many rows there are and how many columns each party has")
    if not run.is_regression:
        yield Learned(COORDINATOR, "the number of classes")
    yield Learned(
        COORDINATOR,
        "which rows pass which node, who split each node, and which nodes became leaves: no label, "
        "sum, gain or leaf value",
    )
    yield Learned(
        COORDINATOR,
        "how many bytes of encrypted sums each party sends at a step, and so about how many "
        "different cuts its columns have there",
    )
    yield Learned(
        COORDINATOR, "the root seed, and with it the rows and columns drawn by every tree"
    )
    if run.is_weighted:
        yield Learned(COORDINATOR, "which rows weigh nothing, not what others do")
    if run.out_of_bag:
        yield Learned(COORDINATOR, "the out-of-bag score after every tree")
        yield Learned(COORDINATOR, LEFT_OUT)
    if run.in_federation:
        yield Learned(
            COORDINATOR,
            "the names of data sets, of the label's column and, unless the label is a number, of "
            "the classes: it passes them on between the user and the label party",
        )


def _at_parties(run: VerticalRun) -> Iterator[Learned]:
    if run.draws_rows:
        yield Learned(EVERY_PARTY, "if it has columns: which rows each tree drew, and how often")
    yield Learned(EVERY_PARTY, "which of its own columns were sampled at each node")
    if len(run.parties) == 1:
        return
    yield Learned(
        EVERY_PARTY,
        "if it has columns: the shape of every tree and which rows pass which node, also where "
        "others split; and at which of its own cuts it splits. Of labels it has ciphertexts",
    )
    if run.is_weighted:
        yield Learned(
            EVERY_PARTY, "if it has columns: which rows weigh nothing, not what others do"
        )
    yield Learned(
        EVERY_PARTY,
        "where growing stops though rows, depth and columns allow a split: that the rows of the "
        "node share a label, not which one (min_samples_leaf and max_depth hide it)",
    )
    yield Learned(
        EVERY_PARTY,
        "from the sampled columns and a public max_features, over many nodes, about how many "
        "columns the others have together",
    )
    if run.out_of_bag:
        yield Learned(EVERY_PARTY, f"if it has columns: {LEFT_OUT}")
    if run.min_rows_leaf < SAFER_LEAF:
        yield Learned(
            EVERY_PARTY,
            f"groups as small as {run.min_rows_leaf} row(s) that other parties' columns tell apart "
            f"(min_samples_leaf; {SAFER_LEAF} or more is safer)",
        )


def _at_label_party(run: VerticalRun) -> Iterator[Learned]:
    yield Learned(
        LABEL_PARTY,
        "the gain of every split, what every leaf says, which rows pass which node, and which "
        "party split it",
    )
    if len(run.parties) == 1:
        return
    yield Learned(
        LABEL_PARTY,
        "of every other party, at each node, how many different cuts its sampled columns have, and "
        "the number of rows and the sum of labels left of each; not in which column or where. Of a "
        "column of categories the same of each category, in their order; not which they are",
    )
    yield Learned(
        LABEL_PARTY,
        "of a cut with few rows on one side, perhaps which rows these are, if their labels tell "
        f"them apart: {run.min_rows_leaf} row(s) are the fewest (min_samples_leaf)",
    )


def _at_user(run: VerticalRun) -> Iterator[Learned]:
    if run.in_federation:
        yield Learned(
            USER,
            "whoever gave the order: the number of each party's columns, the names of classes, "
            "the out-of-bag curve if asked for, and what the forest predicts",
        )


def _in_predictions() -> Iterator[Learned]:
    yield Learned(
        EVERY_PREDICTION,
        "tells the coordinator and the label party which leaf each row reaches in each tree; the "
        "coordinator also what splits say about a row that lie off its path within the lookahead "
        "(prediction=1 tells least, 'one_round' most)",
    )
    yield Learned(
        EVERY_PREDICTION,
        "tells whoever asked what the forest predicts, sealed by the label party: the coordinator "
        "cannot read it unless it puts a key of its own in the asker's place, or asks itself; with "
        "many predictions an asker can work out what leaves say",
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
    whose = f"({run.label_party!r} is their owner)"
    yield Learned(
        NOBODY,
        f"can read labels, their weights, gains and what leaves say {whose}: labels leave "
        "encrypted (about 128 bits of security), the others do not leave",
    )


def _caveats(run: VerticalRun) -> Iterator[Learned]:
    yield Learned(CAVEATS, ON_THEIR_OWN if run.in_federation else IN_ONE_PROCESS)
    yield Learned(
        CAVEATS,
        "which rows go together in nodes is hidden from nobody who has columns; trees are grown so "
        "that rows of a node have similar labels, so over many trees rows can be grouped by label, "
        "and whoever knows some labels can guess others",
    )
    yield Learned(
        CAVEATS,
        "a label party that encrypts something else than labels, such as marks of single rows, and "
        "so reads others' columns bin by bin: nobody can tell",
    )
    yield Learned(
        CAVEATS, "roles that put together what they know (say a party and the label party)"
    )
