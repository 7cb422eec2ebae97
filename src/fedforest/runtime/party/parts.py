"""Check the parts of a run, its scores and baselines, against what the run itself agreed on.

A part is begun under an id of its own. Its limits follow from the run it belongs to: the same data
set, columns and rows, and no more scores than the run declared. A coordinator that begins parts of
other runs, on other rows or once more is refused.
"""

import msgspec

from fedforest.errors import PrivacyError, ReplayError
from fedforest.protocol.asking import check
from fedforest.runtime.messages.roles import (
    AlignmentRole,
    AloneRole,
    AnyRole,
    Role,
    ScoringRole,
    VerticalRole,
)
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.policy import DataSetRules


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """The role, the terms and the rules that a run began with."""

    role: AnyRole
    terms: Terms
    rules: DataSetRules


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
        check(len(known) < _count_allowed(whole, role), "the run has no more parts of this kind")
        return PartsBegun({**self.ids, kind: [*known, part]})


def is_part(role: AnyRole) -> bool:
    """Tell whether a role belongs to another run: scores and baselines do."""
    return isinstance(role, ScoringRole | AloneRole) or getattr(role, "is_alone", False)


def check_part(whole: Begun | None, role: AnyRole, terms: Terms) -> None:
    """Refuse a part that its run does not have, or that is on other terms or rows than it."""
    # classes or the range of one row's label would be declared before anything is charged
    is_held_out = role.rows is not None and role.rows.is_validation
    check(isinstance(role, ScoringRole) or not is_held_out, "a run is on rows held out for scores")
    if isinstance(role, AlignmentRole):  # comes before its run
        return
    if not is_part(role):
        check(not terms.part_of, "a training is no part of another run")
        return
    check(whole is not None, "a score or a baseline is of a run that was not agreed on here")
    assert whole is not None
    is_same = msgspec.structs.replace(terms, part_of="") == whole.terms
    check(is_same, "a part of a run is on other terms than the run")
    check(_is_of_run(whole.role, role), "a part of a run is on other data, labels or rows")
    is_noisy = terms.privacy is not None or terms.label_epsilon is not None
    if is_noisy and not isinstance(role, VerticalRole):
        raise PrivacyError.stating(
            "the labels of this run are protected by noise; scores on the true labels would be a "
            "release without any"
        )
    if isinstance(role, ScoringRole):
        is_own = role.model == terms.part_of or terms.stands_alone  # baselines have ids of parts
        check(is_own, "a score is of another model than its run's")
    is_declared = terms.validates if isinstance(role, ScoringRole) else terms.stands_alone
    check(is_declared, "the run did not declare scores or baselines")


def _is_of_run(whole: Role, part: Role) -> bool:
    """Tell whether a part uses the data set, the label and the rows of its run."""
    rows = whole.rows
    if rows is not None and isinstance(part, ScoringRole):
        rows = msgspec.structs.replace(rows, is_validation=True)
    wanted = (whole.data, whole.is_regression, whole.label, rows)
    if (part.data, part.is_regression, part.label, part.rows) != wanted:
        return False
    if isinstance(part, ScoringRole):
        return True
    # whose labels are encrypted; others' ciphertexts would be marks of rows
    has_key = getattr(part, "label_party", None) == getattr(whole, "label_party", None)
    return part.weight == whole.weight and has_key


def _count_allowed(whole: Begun, role: AnyRole) -> int:
    """Return how many parts of this kind a run has at one party."""
    n_baselines = whole.terms.n_parties if isinstance(whole.role, VerticalRole) else 0
    if isinstance(role, VerticalRole):
        return n_baselines
    if isinstance(role, ScoringRole):
        return 1 + (n_baselines if whole.terms.stands_alone else 0)
    return 1
