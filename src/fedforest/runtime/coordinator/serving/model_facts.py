"""What answers about a model say beside its votes: the names of classes, and how trees vote."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from fedforest.errors import ConfigurationError
from fedforest.runtime.coordinator.run_records import RunRecords
from fedforest.runtime.messages.orders import Align, PredictVertical, StandingName

_MOST_KEPT = 64


class StandingNames(Protocol):
    """What knows the data sets of standing alignments."""

    def data_of(self, name: str) -> Mapping[str, str]:
        """Return the data set of each party."""


class ModelFacts(NamedTuple):
    """Facts that stay the same while a model exists."""

    classes: Sequence[Any] | None = None  # None: a regression
    hard_votes: bool = False
    data: Mapping[str, str] = MappingProxyType({})  # of the training, by party
    align: Align = False  # in the training

    def complete(self, order: PredictVertical, standing: StandingNames) -> PredictVertical:
        """Fill in what a request leaves open: as in the training, or as the alignment has it.

        A request that names data sets says itself how they are aligned.
        """
        hard_votes = self.hard_votes if order.hard_votes is None else order.hard_votes
        if order.data:
            return replace(order, hard_votes=hard_votes)
        align = order.align or (self.align if isinstance(self.align, StandingName) else False)
        data = standing.data_of(align.standing) if isinstance(align, StandingName) else self.data
        return replace(order, data=dict(data), align=align, hard_votes=hard_votes)


class ModelFactsReader:
    """Reads facts about models from the records of their runs, and keeps some."""

    def __init__(self, records: RunRecords) -> None:
        self._records = records
        self._kept: OrderedDict[str, ModelFacts] = OrderedDict()

    def read(self, model: str) -> ModelFacts:
        """Return the facts about a model; a run without records has none."""
        kept = self._kept.get(model)
        if kept is None:
            kept = self._kept[model] = self._look_up(model)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return kept

    def _look_up(self, model: str) -> ModelFacts:
        try:
            details = self._records.show(bytes.fromhex(model))
        except (ConfigurationError, ValueError):
            return ModelFacts()
        align = details.order.get("align", False)
        return ModelFacts(
            details.classes,
            bool(details.order.get("hard_votes")),
            details.order.get("data", {}),
            StandingName(**align) if isinstance(align, dict) else align,
        )
