"""`policy.toml`: the rules for using a party's data, enforced at the party itself.

`[default]` is for all data sets, `[data.NAME]` for one; other settings have the defaults of
`DataSetRules`. The file is read again whenever a run or a prediction begins: a change counts for
those that begin later. A file with an error allows nothing.
"""

import logging
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fedforest.errors import ConfigurationError, PolicyRefusal
from fedforest.protocol.horizontal.order import Scope
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.orders import AlignmentMethod
from fedforest.runtime.toml_documents import parse_document, read_document

FILE_NAME = "policy.toml"
Protocol = Literal["vertical", "horizontal", "linear", "prediction"]
AggregationName = Literal["plain", "masked", "ring", "shamir"]
StandingServing = Literal["nothing", "rows", "ids"]
NoiseName = Literal["none", "local", "global"]
AskerProof = Literal["vouched", "signed", "pinned"]
LabelProtection = Literal["encoded", "randomized_response", "encrypted"]
Epsilon = Annotated[float, msgspec.Meta(gt=0)]
Limit = Annotated[int, msgspec.Meta(ge=1)]
Rows = Annotated[int, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]

_LOG = logging.getLogger(__name__)
_NO_LIMIT = 2**62


class DataSetRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one data set; the defaults hold if there is no file."""

    use: bool = True  # whether runs and predictions may use the data set
    askers: tuple[str, ...] | None = None  # names of users; None: everybody in the federation
    # how a user is known: by the coordinator's word, by a signature, by a key pinned here
    asker_proof: AskerProof = "vouched"
    # what runs may do
    protocols: tuple[Protocol, ...] = ("vertical", "horizontal", "linear", "prediction")
    columns: tuple[str, ...] | None = None  # that runs may see; None: all but those hidden
    hidden_columns: tuple[str, ...] = ()  # that runs may not see, not even as labels
    label_columns: tuple[str, ...] | None = None  # that alone may be labels, and nothing else
    weight_columns: tuple[str, ...] | None = None  # None: any, or none where labels are protected
    min_rows_per_leaf: Limit = 5  # smallest `min_samples_leaf` of a run
    most_trees: Limit = 10_000  # of one run
    most_row_trees: Limit = _NO_LIMIT  # own rows of one run, times its trees
    most_memory_bytes: Limit = _NO_LIMIT  # of this party in one run, as planned
    most_stored_bytes: Limit = _NO_LIMIT  # by this party for one run, until it ends
    min_rows_per_score: Limit = 10  # held-out rows behind a score
    label_protection: LabelProtection = "encoded"  # "encoded": in any protection
    largest_label_epsilon: Epsilon = math.inf  # of one run with noise on labels
    # ways to add up sums of horizontal runs
    aggregations: tuple[AggregationName, ...] = ("plain", "masked", "ring", "shamir")
    least_participants: Limit = 1  # of every sum that this party's numbers are in
    participation_scopes: tuple[Scope, ...] = ("tree", "run")  # how long protected ones keep them
    noise: tuple[NoiseName, ...] = ("none", "local", "global")  # on sums of labels
    epsilon_ceiling: Epsilon = math.inf  # of all runs together, on the label of a row
    largest_lookahead: Limit = 64  # as much as a coordinator chooses by itself
    complete_model: bool = False  # whether splits may leave, for a model that predicts alone
    prediction_rows_per_day: Rows = 1_000_000  # for each asker
    prediction_rows_per_day_total: Rows = 5_000_000  # of all askers, whose names are not verified
    alignment: bool = True  # whether rows may be matched by ids
    alignment_methods: tuple[AlignmentMethod, ...] = ("keyed-hash", "psi")  # by which ways
    least_aligned_ids: Rows = 10  # in every list of ids that this party sees, and in its own
    least_common_ids: Limit = 5  # of all parties, before anybody learns which
    least_common_fraction: Fraction = 0.0  # of every list that this party sees, its own included
    alignments_per_day: Rows = 1000  # of all data sets, by everybody
    alignments_per_day_per_asker: Rows = 1000  # as the coordinator names askers
    standing_days: Rows = 90  # that a standing alignment may live; 0: there is none
    standing_askers: tuple[str, ...] | None = None  # who may make or extend one; None: all askers
    # what a standing alignment may serve: predictions of chosen rows, and of rows by their ids
    standing_serving: StandingServing = "nothing"
    # whether scores on held-out rows may leave; None: unless labels must be encrypted
    validation: bool | None = None
    alone: bool = True  # whether runs may train on this party alone

    @property
    def protects_labels(self) -> bool:
        """Return whether labels may leave only encrypted, or with noise or a limited epsilon."""
        return self.label_protection != "encoded" or math.isfinite(self.epsilon_ceiling)

    @property
    def allows_scores(self) -> bool:
        """Return whether scores may leave; those of many runs tell labels that are encrypted."""
        if self.validation is None:
            return self.label_protection != "encrypted"
        return self.validation

    def hidden(self, names: Collection[str], label: str | None = None) -> frozenset[str]:
        """Return those of these columns that a run with this label may not see."""
        allowed = names if self.columns is None else self.columns
        labels = set(self.label_columns or ()) - {label}
        hidden = labels.union(self.hidden_columns)
        return frozenset(name for name in names if name in hidden or name not in allowed)


ALLOW_EVERYTHING = DataSetRules(
    min_rows_per_leaf=1,
    most_trees=_NO_LIMIT,
    min_rows_per_score=1,
    participation_scopes=("tree", "step", "run"),
    largest_lookahead=_NO_LIMIT,
    complete_model=True,
    prediction_rows_per_day=_NO_LIMIT,
    prediction_rows_per_day_total=_NO_LIMIT,
    least_aligned_ids=0,
    least_common_ids=1,
    alignments_per_day=_NO_LIMIT,
    alignments_per_day_per_asker=_NO_LIMIT,
    standing_days=_NO_LIMIT,
    standing_serving="ids",
)


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file."""

    default: DataSetRules = DataSetRules()
    data: dict[str, DataSetRules] = {}


class Policy:
    """One set of rules for all data sets, as a program gives it."""

    def __init__(self, rules: DataSetRules = ALLOW_EVERYTHING) -> None:
        self._rules = rules

    def rules(self, data: str) -> DataSetRules:
        """Return the present rules of a data set."""
        del data  # the same for all
        return self._rules


class PolicyText(Policy):
    """The rules of a text that is no file yet; raises `ConfigurationError` at a mistake."""

    def __init__(self, text: str) -> None:
        super().__init__(DataSetRules())
        document = parse_document(text.encode(), Path(FILE_NAME))
        document.read(_Document)
        self._content = document.content

    def rules(self, data: str) -> DataSetRules:
        """Return the rules of a data set."""
        return _rules_of(self._content, data)

    def named(self) -> list[str]:
        """List the data sets that the text has rules for."""
        return list(self._content.get("data", {}))


class PolicyFile(Policy):
    """The rules in a party's folder; without a file, the defaults."""

    def __init__(self, home: Path) -> None:
        super().__init__(DataSetRules())
        self.path = home / FILE_NAME
        self._state: object = None
        self._document: Mapping[str, Any] = {}

    def rules(self, data: str) -> DataSetRules:
        """Return the present rules of a data set; a file with an error allows nothing."""
        try:
            self._look()
        except ConfigurationError as error:
            log_event(_LOG, "policy unusable", severity=logging.ERROR, text=str(error))
            raise PolicyRefusal.of("policy.unreadable") from None
        return _rules_of(self._document, data)

    def check(self) -> list[str]:
        """List the data sets that the file has rules for; raises with the line of an error."""
        self._look()
        return list(self._document.get("data", {}))

    def _look(self) -> None:
        """Read the file again if it has changed."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._state, self._document = None, {}
            return
        state = (status.st_mtime_ns, status.st_size, status.st_ino)
        if state != self._state:
            document = read_document(self.path)
            document.read(_Document)  # or an error that names the place
            self._document, self._state = document.content, state


def _rules_of(content: Mapping[str, Any], data: str) -> DataSetRules:
    default, own = content.get("default", {}), content.get("data", {})
    return msgspec.convert({**default, **own.get(data, {})}, DataSetRules)
