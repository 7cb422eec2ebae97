"""The bodies of requests to the HTTP API of a federation."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.orders import PredictVertical, StandingName

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
IdValue = Text | Whole
Ids = Annotated[
    list[IdValue | Annotated[list[IdValue], msgspec.Meta(min_length=1, max_length=16)]],
    msgspec.Meta(min_length=1),
]
RowNumbers = Annotated[
    list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]], msgspec.Meta(min_length=1)
]


class PredictionRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Which rows to predict: by ids or by row numbers, one or many.

    Under a standing alignment (`alignment`; the one of the training unless it is named) rows are
    numbered in the common order, and `ids` are found by `id_party`, or by the alignment's first
    party. Without one, `rows` are numbers in the data sets. `data` has the data set of each party,
    unless they are those of the alignment, or of the training. `key` is a public key (X25519,
    base64), which models whose labels are encrypted need.
    """

    ids: Ids | None = None
    rows: RowNumbers | None = None
    alignment: Annotated[str, msgspec.Meta(pattern=r"^[\w .-]{0,64}$")] = ""
    data: Annotated[dict[str, Text], msgspec.Meta(max_length=1000)] = {}
    id_party: Annotated[str, msgspec.Meta(max_length=64)] = ""
    lookahead: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    key: Annotated[bytes, msgspec.Meta(max_length=32)] = b""

    @property
    def n_rows(self) -> int:
        """The number of rows that are asked for."""
        return len(self.ids or self.rows or ())

    def order(self, model: str) -> PredictVertical:
        """Return the request to the coordinator; raises if not one kind of rows is named."""
        if (self.ids is None) == (self.rows is None):
            raise ConfigurationError("name rows either by ids or by numbers: one of ids and rows")
        return PredictVertical(
            data=self.data,
            model=model,
            rows=self.rows,
            ids=None if self.ids is None else write_columns(self.ids),
            id_party=self.id_party,
            lookahead=self.lookahead,
            hard_votes=None,
            key=self.key,
            align=StandingName(self.alignment) if self.alignment else False,
        )


class SteeringRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parties to go on without, if that is possible."""

    without: Annotated[list[str], msgspec.Meta(max_length=1000)] = []


class RunDocument(msgspec.Struct, frozen=True):
    """A run as `run.toml` describes it: the same keys, in TOML or in JSON."""

    protocol: str
    parties: dict[str, str]
    label: dict[str, Any]


def write_columns(ids: Sequence[Any]) -> list[list[str]]:
    """Return the texts of ids, column by column; raises if some have more columns than others."""
    rows = [each if isinstance(each, list) else [each] for each in ids]
    if len({len(row) for row in rows}) > 1:
        raise ConfigurationError("some ids have more columns than others")
    return [[str(row[column]) for row in rows] for column in range(len(rows[0]))]
