"""The one door through which statistics of true labels leave a party.

A payload that a party computes from its true labels derives from `LabelStatistic`, also if noise or
masks protect it. The gate of a run (`contract.py`) lets a reply with such a payload pass only after
the accountant of the data set has approved: it charges the ledger, or refuses. Numbers computed
from labels that already left, such as gains and left sums, need no approval of their own.
"""

from functools import cache
from typing import Any, Protocol, get_args

import msgspec

from fedforest.protocol.asking import Message, Payload


class LabelStatistic(Payload, frozen=True):
    """Root of the payloads that a party computes from its true labels."""


class Accountant(Protocol):
    """Decides for the owner of a data set about every release of its labels and ids."""

    @property
    def has_approved(self) -> bool:
        """Whether labels of this run may leave in the protection that was asked for."""

    @property
    def least_rows(self) -> int:
        """The least number of rows behind a score, and behind a count of predictions."""

    @property
    def least_common(self) -> tuple[int, float]:
        """The least ids that parties must have in common: a number, a fraction of each list."""

    def approve(
        self, request: Message, n_rows: int | None = None, n_longest: int | None = None
    ) -> None:
        """Charge a request that makes labels leave, or check a limit of it; raises a refusal.

        `n_rows` are the rows behind a score, the ids of a list, or those that all parties have; the
        longest list that the party knows of has `n_longest`.
        """


class Owner:
    """The accountant of a caller who owns all tables: everything may leave."""

    has_approved, least_rows, least_common = True, 1, (1, 0.0)

    def approve(
        self, request: Message, n_rows: int | None = None, n_longest: int | None = None
    ) -> None:
        """Approve everything."""


OWNER = Owner()


def tells_labels(reply: Message) -> bool:
    """Tell whether a reply holds a statistic of true labels."""
    return any(getattr(reply, name) for name in list_label_fields(type(reply)))


@cache
def list_label_fields(reply: type[Message]) -> tuple[str, ...]:
    """List the fields of a reply that may hold statistics of true labels, alone or in a tuple."""
    fields = msgspec.structs.fields(reply)
    return tuple(field.name for field in fields if _names_statistic(field.type))


def _names_statistic(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, LabelStatistic):
        return True
    return any(map(_names_statistic, get_args(annotation)))
