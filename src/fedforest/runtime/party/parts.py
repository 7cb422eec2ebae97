"""Check the parts of a run, its scores and baselines, against what the run itself agreed on.

A part is begun under an id of its own. Its limits follow from the run it belongs to: the same data
set, columns and rows, and no more scores than the run declared. A coordinator that begins parts of
other runs, on other rows or once more is refused.
"""

import msgspec

from fedforest.errors import DataError, PrivacyError, ReplayError
from fedforest.protocol.asking import check
from fedforest.runtime.messages.party_requests import Done
from fedforest.runtime.messages.roles import AnyRole, Role
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.policy import DataSetRules
from fedforest.runtime.party.tasks import task_of
from fedforest.runtime.trainings.party_task import Demands
from fedforest.runtime.trainings.vertical import VERTICAL


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """The role, the terms and the rules that a run began with."""

    role: AnyRole
    terms: Terms
    rules: DataSetRules
    erased: str = ""  # what had been erased of the table
    snapshot: str = ""  # of the data set; empty in runs of before
    reply: Done = Done()  # to `BeginRun`, however often it is asked

    def check_snapshot(self, data: DataSet, run: str) -> None:
        """Refuse another state of the data set than the run began with: nothing is mixed."""
        is_same = data.name != self.role.data or data.snapshot == self.snapshot
        if self.snapshot and not is_same:
            raise DataError.of("data_set.other_now", data_set=data.name, run=run)

    @property
    def demands(self) -> Demands:
        """The demands of the role on the owner of the data."""
        return task_of(self.role).demands(self.role, self.terms)


_BEGUN = msgspec.msgpack.Decoder(Begun)


def read_begun(description: bytes) -> Begun:
    """Decode what a run began with; raises `ReplayError` for a run of an earlier version."""
    try:
        return _BEGUN.decode(description)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ReplayError.stating(
            "the run was begun by another version of fedforest, whose runs declared less; cancel "
            "it and begin it anew"
        ) from None


class PartsBegun(msgspec.Struct, frozen=True, array_like=True):
    """The parts of a run that began at this party: their ids by kind of role."""

    ids: dict[str, list[bytes]] = {}

    def with_part(self, whole: Begun, role: AnyRole, part: bytes) -> "PartsBegun":
        """Return the same with one more part, or refuse it; a part that began is there once."""
        kind = type(role).__name__
        known = self.ids.get(kind, [])
        if part in known:
            return self
        wanted = task_of(role).demands(role, whole.terms)
        is_allowed = len(known) < _count_allowed(whole, wanted)
        check(is_allowed, "the run has no more parts of this kind")
        return PartsBegun({**self.ids, kind: [*known, part]})


def is_part(wanted: Demands) -> bool:
    """Tell whether a role belongs to another run: scores and baselines do."""
    return wanted.scores or wanted.stands_alone


def check_part(whole: Begun | None, role: AnyRole, terms: Terms) -> None:
    """Refuse a part that its run does not have, or that is on other terms or rows than it."""
    wanted = task_of(role).demands(role, terms)
    # classes or the range of one row's label would be declared before anything is charged
    is_held_out = role.rows is not None and role.rows.is_validation
    check(_is_score(wanted) or not is_held_out, "a run is on rows held out for scores")
    if wanted.alignment is not None:  # comes before its run
        return
    if not is_part(wanted):
        check(not terms.part_of, "a training is no part of another run")
        return
    check(whole is not None, "a score or a baseline is of a run that was not agreed on here")
    assert whole is not None
    is_same = msgspec.structs.replace(terms, part_of="") == whole.terms
    check(is_same, "a part of a run is on other terms than the run")
    check(_is_of_run(whole, role, wanted), "a part of a run is on other data, labels or rows")
    is_noisy = terms.privacy is not None or terms.label_epsilon is not None
    if is_noisy and wanted.scores:
        raise PrivacyError.stating(
            "the labels of this run are protected by noise; scores on the true labels would be a "
            "release without any"
        )
    if wanted.scored_model is not None:
        # baselines have ids of parts
        is_own = wanted.scored_model == terms.part_of or terms.stands_alone
        check(is_own, "a score is of another model than its run's")
    is_declared = terms.validates if _is_score(wanted) else terms.stands_alone
    check(is_declared, "the run did not declare scores or baselines")
    is_like_run = _is_score(wanted) or wanted.protocol == whole.demands.protocol
    check(is_like_run, "a baseline is of another protocol than its run")


def _is_score(wanted: Demands) -> bool:
    """Tell whether a part only scores a model; a horizontal baseline scores itself."""
    return wanted.scores and not wanted.stands_alone


def _is_of_run(whole: Begun, part: Role, wanted: Demands) -> bool:
    """Tell whether a part uses the data set, the label and the rows of its run."""
    own, rows = whole.role, whole.role.rows
    if rows is not None and _is_score(wanted):
        rows = msgspec.structs.replace(rows, is_validation=True)
    used = (part.data, part.is_regression, part.label, part.rows)
    if used != (own.data, own.is_regression, own.label, rows):
        return False
    if _is_score(wanted):
        return True
    # whose labels are encrypted; others' ciphertexts would be marks of rows
    has_key = getattr(part, "label_party", None) == getattr(own, "label_party", None)
    return part.weight == own.weight and has_key


def _count_allowed(whole: Begun, wanted: Demands) -> int:
    """Return how many parts of this kind a run has at one party.

    Parties of a vertical run help with every party's baseline and its score. A horizontal baseline
    is a party's own, scores included.
    """
    is_vertical = whole.demands.protocol == VERTICAL.protocol
    if wanted.stands_alone:
        return whole.terms.n_parties if is_vertical else 1
    return 1 + (whole.terms.n_parties if is_vertical and whole.terms.stands_alone else 0)
