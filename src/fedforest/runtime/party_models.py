"""The models of a party: its shares of vertical forests and linear models, and whole forests."""

from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.linear.messages import ScoreRows
from fedforest.protocol.linear.party import LinearParty
from fedforest.protocol.vertical import prediction_messages
from fedforest.protocol.vertical.out_of_bag import AnswerKey, OutOfBagRecord
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction_party import PredictingParty
from fedforest.runtime.linear_files import (
    NO_COLUMNS,
    StoredLinearShare,
    decode_linear_share,
    encode_linear_share,
)
from fedforest.runtime.roles import HorizontalWork, LinearWork, Work
from fedforest.runtime.stored_models import StoredModels
from fedforest.tree.class_labels import unpack_labels
from fedforest.tree.forest_file import decode_partial, encode_partial
from fedforest.tree.model_file import JsonValue, decode_model, encode_model
from fedforest.tree.routes import OwnRoutes
from fedforest.tree.table import Table
from fedforest.tree.workers import Workers

MOST_OPEN = 8  # models that are kept in memory
_VOTES = "out-of-bag-votes"
_LINEAR = "linear"  # the kind of file


class _Opened(NamedTuple):
    model: PartyModel
    classes: JsonValue
    routes: OwnRoutes


class Predictor(NamedTuple):
    """A party in one prediction."""

    handler: Handler
    requests: tuple[type[Message], ...]


class PartyModels:
    """Keeps models under the ids that the coordinator gave them."""

    def __init__(self, folder: Path) -> None:
        self._files = StoredModels(folder)
        self._open: OrderedDict[str, _Opened] = OrderedDict()

    def keep(self, model: str, work: Work) -> JsonValue:
        """Store what a training left at this party; returns what `classes` would read again."""
        if isinstance(work, HorizontalWork):
            self._files.write(model, bytes(work.party.model_file))
            return None
        if isinstance(work, LinearWork):
            return self._keep_linear(model, work)
        share = work.party.model()
        if share.out_of_bag is not None and share.out_of_bag.votes.counts.any():
            self._files.write(model, _encode_votes(share.out_of_bag), "votes")
        classes = work.describe_classes()
        about: dict[str, JsonValue] = {"model": model, "classes": classes}
        self._files.write(model, encode_partial(share.partial, share.bins, about))
        return classes

    def _keep_linear(self, model: str, work: LinearWork) -> JsonValue:
        classes = work.describe_classes()
        about: dict[str, JsonValue] = {"model": model, "classes": classes}
        share = work.party.share() if work.party.has_columns else NO_COLUMNS
        self._files.write(model, encode_linear_share(share, about), _LINEAR)
        return classes

    def has(self, model: str) -> bool:
        """Whether the model is here."""
        return self._files.has(model) or self._files.has(model, _LINEAR)

    def read(self, model: str) -> tuple[PartyModel, NDArray[Any] | None]:
        """The party's share of a vertical forest and, at the label party, its classes."""
        opened = self._opened(model)
        classes = None if opened.classes is None else unpack_labels(opened.classes)
        return opened.model, classes

    def classes(self, model: str) -> JsonValue:
        """What class numbers mean, packed; None where this party does not know it."""
        if self._files.has(model, _LINEAR):
            return self._linear(model).classes
        try:
            return self._opened(model).classes
        except ModelFileError:  # a whole forest: the coordinator has it too
            return None

    def column_names(self, model: str) -> tuple[str, ...]:
        """The columns that predictions need."""
        if self._files.has(model, _LINEAR):
            return self._linear(model).share.design.names
        return self._opened(model).model.bins.names

    def predictor(self, model: str, table: Table, workers: Workers) -> Predictor:
        """Who answers one prediction with these columns, and what it may be asked."""
        if self._files.has(model, _LINEAR):
            return Predictor(LinearParty(table, share=self._linear(model).share), (ScoreRows,))
        opened = self._opened(model)
        party = PredictingParty(opened.model, table, workers, opened.routes)
        return Predictor(party, prediction_messages.REQUESTS)

    def _linear(self, model: str) -> StoredLinearShare:
        """Linear models are small, and read when they are needed."""
        return decode_linear_share(self._files.read(model, _LINEAR))

    def _opened(self, model: str) -> _Opened:
        if model not in self._open:
            stored = decode_partial(self._files.read(model))
            votes = self._files.read(model, "votes") if self._files.has(model, "votes") else None
            record = None if votes is None else _decode_votes(votes)
            share = PartyModel(stored.bins, stored.partial, record)
            routes = OwnRoutes.of(stored.partial)
            self._open[model] = _Opened(share, stored.metadata.get("classes"), routes)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(model)
        return self._open[model]


def _encode_votes(record: OutOfBagRecord) -> bytes:
    """Votes and the labels they are compared with: this file never leaves the label party."""
    key, votes = record.key, record.votes
    about: dict[str, JsonValue] = {
        "n_classes": key.n_classes,
        "epsilon": None if key.response is None else float(key.response.epsilon),
    }
    arrays = {"answers": np.asarray(key.answers), "votes": votes.votes, "counts": votes.counts}
    return encode_model(_VOTES, about, arrays)


def _decode_votes(data: bytes) -> OutOfBagRecord:
    file = decode_model(data, expected_kind=_VOTES)
    n_classes, epsilon = file.metadata["n_classes"], file.metadata["epsilon"]
    response = None if epsilon is None else RandomizedResponse(float(epsilon))  # type: ignore[arg-type] # as stored
    answers = file.arrays["answers"].copy()
    record = OutOfBagRecord(AnswerKey(answers, int(n_classes), response), len(answers))  # type: ignore[arg-type] # as stored
    record.votes.votes[:] = file.arrays["votes"]
    record.votes.counts[:] = file.arrays["counts"]
    return record
