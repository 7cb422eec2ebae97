"""The origins of a model at one party: its trainings, and the party's data that each used.

A model trained from the start has one origin; a warm start has those of the earlier forest and its
own. The rules of all their data sets hold for the model.
"""

import msgspec

from fedforest.runtime.messages.roles import Role
from fedforest.runtime.messages.terms import Terms


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training: its run, its data set, and the columns that it used as label and weight."""

    run: str
    data: str
    label: str | None = None  # None: of another party
    weight: str | None = None
    label_epsilon: float | None = None  # of the labels; None: they left without noise
    encrypts_labels: bool = False  # they left encrypted
    alignment: str | None = None  # of its rows; None: all rows of the data set

    @classmethod
    def of(cls, run: bytes, role: Role, terms: Terms) -> "Origin":
        """Describe the training that a party takes part in by a role."""
        used = role.data, role.label, role.weight
        alignment = None if role.rows is None else role.rows.alignment
        return cls(run.hex(), *used, terms.label_epsilon, terms.encrypts_labels, alignment)


Origins = tuple[Origin, ...]  # in the order of the trainings
