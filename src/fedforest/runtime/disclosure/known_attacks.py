"""Known attacks on the content of messages, and the remedies.

They are listed by the replies that give them something to work with, so that a report names those
that apply to a run, and no others. A protection that replies do not show, such as noise under a
mask, is a fact about the run. Without the facts, as in a party's ledger, every possible attack is
listed.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

EXACT_SUMS = "exact sums"
NOISY_SUMS = "noisy sums"
PARTIES_CHANGE = "parties change between sums over the same rows"
_PROTECTED = frozenset({"MaskedCounted", "Passed", "SharedOut", "SharesAdded"})


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack that a role could make with what it learned."""

    name: str
    risk: str  # what could come out, in words that need no knowledge of the protocol
    who: str
    how: str
    against: str  # what helps
    messages: frozenset[str]  # replies that it works with; any of them is enough
    only_if: str | None = None  # a fact about the run without which it does not work

    def works_with(self, sent: Collection[str], facts: Collection[str] | None) -> bool:
        """Whether a run gives it what it needs; without facts, whether it may."""
        is_possible = self.only_if is None or facts is None or self.only_if in facts
        return is_possible and not self.messages.isdisjoint(sent)

    def to_json(self) -> dict[str, str]:
        names = ("name", "risk", "who", "how", "against")
        return {name: getattr(self, name) for name in names}

    def to_text(self) -> str:
        return f"{self.name} ({self.who}): {self.how}. Against it: {self.against}."


_ALL = (
    Attack(
        "reading labels",
        "which outcome (label) each person has",
        "the coordinator, and parties with columns",
        "the coordinator knows the class of every row; parties know which rows share a class and "
        "match codes to classes by their sizes",
        "encrypted labels (Encrypted) or noisy ones (RandomizedResponse)",
        frozenset({"LabelsShared"}),
    ),
    Attack(
        "grouping rows",
        "which people are alike in another party's columns or in the outcome",
        "the coordinator, and parties with columns",
        "rows that go together through many trees are alike in labels or in another party's "
        "columns; clustering them recovers labels and groups (ID2Graph, Takahashi et al. 2023)",
        "fewer trees, larger min_samples_leaf, noisy labels",
        frozenset({"SplitsApplied", "CutsChosen"}),
    ),
    Attack(
        "ordering rows",
        "who has more and who has less in another party's columns",
        "the coordinator",
        "rows that go left have less than those that go right; a deep tree on one column orders "
        "them as finely as its leaves are, and a gain ranks a row that has a label of its own "
        "(rank correlation 0.999 with leaves of 5 rows)",
        "larger min_samples_leaf, a small max_depth, fewer trees",
        frozenset({"SplitsApplied", "CutsChosen"}),
    ),
    Attack(
        "ranking columns",
        "which party's columns say most about the outcome",
        "the coordinator",
        "gains and importances tell which party's columns carry the label",
        "nothing but the party's decision to take part",
        frozenset({"SplitsFound", "ColumnsWeighed"}),
    ),
    Attack(
        "naming bin mates",
        "which people have nearly the same value in another party's columns",
        "the label party",
        "it learns the labels on both sides of each cut; if few rows are on one side and their "
        "labels are rare, or numbers that only they have, it knows which rows these are, though "
        "not in which column",
        "larger min_samples_leaf, fewer bins (max_bins)",
        frozenset({"CutsOffered"}),
    ),
    Attack(
        "marking rows",
        "another party's columns, bin by bin",
        "a label party that does not follow the protocol",
        "it encrypts marks of rows in the place of labels, and the sums that it gets back tell in "
        "which bins the marked rows are; ciphertexts of marks and of labels look alike",
        "a contract with the label party; larger min_samples_leaf, fewer trees",
        frozenset({"CutsOffered"}),
    ),
    Attack(
        "solving for leaves",
        "what leaves say, and with small leaves the outcome of people in the training data",
        "askers of predictions, and a coordinator that asks in their name",
        "votes are means over leaves: enough predictions are enough equations",
        "quotas of predicted rows (prediction_rows_per_day), larger min_samples_leaf",
        frozenset({"RowsVoted"}),
    ),
    Attack(
        "restricting paths",
        "roughly which values a person has that is predicted for",
        "the coordinator, and readers of predictions",
        "which way splits send a row bounds its values by their thresholds; with a guess of these, "
        "values follow (Luo et al. 2021)",
        "a small lookahead (`--lookahead 1`, prediction=1), quotas of predicted rows",
        frozenset({"RowsSwept", "RowsLeapt", "RowsRouted"}),
    ),
    Attack(
        "enclosing ranges",
        "the smallest and largest values in a party's columns, roughly",
        "the coordinator",
        "random points inside a party's range, over many nodes and trees, come close to its "
        "smallest and largest values",
        "fewer trees, clipping of extreme values before training",
        frozenset({"ThresholdsProposed"}),
    ),
    Attack(
        "differencing rows",
        "the outcome of single people, by comparing two sums",
        "the coordinator",
        "two exact sums over nearly the same rows differ by the labels of the rest; sides of "
        "candidate cuts may hold a single row, as min_samples_leaf is applied after counting",
        "LocalDP or GlobalDP; fewer trees and less depth; protected sums (Masked, Ring, Shamir) "
        "hide whose rows they are, not their labels",
        frozenset({"Counted"}) | _PROTECTED,
        EXACT_SUMS,
    ),
    Attack(
        "differencing parties",
        "what one party alone counted, by comparing two sums",
        "the coordinator",
        "where every step draws its participants (participation_scope='step'), two sums over the "
        "same rows differ by what a single party holds of them, masks or not",
        "participation_scope 'tree' or 'run', which change parties in blocks or not at all",
        _PROTECTED,
        PARTIES_CHANGE,
    ),
    Attack(
        "collusion",
        "what one party alone counted, if others pool what they know",
        "the coordinator together with other parties",
        "who knows all sums but one knows that one; with two parties, either knows the other's",
        "more parties, a larger k or threshold, the same participants in the whole run",
        _PROTECTED,
    ),
    Attack(
        "averaging noise",
        "outcomes behind the noise, after many runs on the same people",
        "the coordinator",
        "noisy answers about the same labels, over runs, average out as far as the budget goes",
        "the ceiling on epsilon over all runs",
        frozenset({"NoisilyCounted"}) | _PROTECTED,
        NOISY_SUMS,
    ),
    Attack(
        "testing membership",
        "whether a certain person was in the training data",
        "every holder of the model",
        "a model is surer about rows that it was trained on (Shokri et al. 2017)",
        "larger min_samples_leaf, noise on labels, keeping the model to yourselves",
        frozenset({"ThresholdsProposed"}),
    ),
    Attack(
        "reading labels off residuals",
        "which outcome (label) each person has",
        "the coordinator, and parties with columns",
        "the sign of a residual is the class, the first residuals are the targets",
        "nothing in this baseline; use a forest with encrypted or noisy labels",
        frozenset({"Measured"}),
    ),
    Attack(
        "guessing ids",
        "which people a party knows, by trying out likely ids",
        "the coordinator together with one party",
        "with the key that parties share, ids that can be listed are hashed and compared",
        "private set intersection, ids that cannot be guessed",
        frozenset({"IdsHashed"}),
    ),
    Attack(
        "asking by made-up lists",
        "whether another party knows people whom the asking party only guesses at",
        "a party",
        "a party's list may hold ids of people it does not know: each entry asks about one person, "
        "and no other party can tell it from an honest one",
        "least_aligned_ids, least_common_ids and least_common_fraction of the policy, quotas",
        frozenset({"IdsHashed", "ListsBlinded"}),
    ),
    Attack(
        "following ids over time",
        "when people come to a party and when they leave it",
        "the coordinator, by numbers that stand for people; parties, for those they know",
        "a standing alignment has the same points for as long as it lives: what was added between "
        "two extensions is new at a party, and what is found no more has left it",
        "a shorter life (standing_days), alignments that are not kept",
        frozenset({"RowsFound"}),
    ),
)


def attacks_on(messages: Iterable[str], facts: Collection[str] | None = None) -> list[Attack]:
    """Known attacks that replies of these kinds give something to work with."""
    sent = set(messages)
    return [attack for attack in _ALL if attack.works_with(sent, facts)]
