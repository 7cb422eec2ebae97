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
from fedforest.runtime.role_work import HorizontalWork, LinearWork, ModelWork
from fedforest.runtime.stored_models import StoredModels
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.class_labels import unpack_labels
from fedforest.tree.forest_file import (
    StoredForest,
    decode_forest,
    decode_partial,
    encode_partial,
)
from fedforest.tree.model_file import decode_model, encode_model
from fedforest.tree.routes import OwnRoutes
from fedforest.tree.table import Table
from fedforest.tree.workers import Workers

MOST_OPEN = 8  # models that are kept in memory
_VOTES = "out-of-bag-votes"
_LINEAR = "linear"  # the share of a linear model
_NOISY = "noisy"  # an empty file: its presence says it
_SCORED = "scored"  # the run that had the model scored


class _Opened(NamedTuple):
    model: PartyModel
    classes: JsonValue
    routes: OwnRoutes
    data: str


class Predictor(NamedTuple):
    """A party in one prediction."""

    handler: Handler
    requests: tuple[type[Message], ...]
    depth: int  # of the trees; 0 where there are none


class PartyModels:
    """Keeps models under the ids that the coordinator gave them."""

    def __init__(self, folder: Path) -> None:
        self._files = StoredModels(folder)
        self._open: OrderedDict[str, _Opened] = OrderedDict()

    def keep(
        self, model: str, work: ModelWork, data: str = "", n_trees: int | None = None
    ) -> JsonValue:
        """Store what a training left at this party; returns what `classes` would read again.

        `data` names the data set that it was trained on, whose rules hold for it from now on. A
        party that was away when the training ended is told the number of trees that it came to.
        """
        if isinstance(work, HorizontalWork):
            if work.is_noisy:
                self._files.write(model, b"", _NOISY)
            self._files.write(model, bytes(work.party.model_file))
            return None
        if isinstance(work, LinearWork):
            return self._keep_linear(model, work, data)
        share = work.party.model(n_trees)
        record = share.out_of_bag
        if record is not None and record.votes.counts.any():
            self._files.write(model, _encode_votes(record), "votes")
        if record is not None and record.key.response is not None:
            self._files.write(model, b"", _NOISY)
        classes = work.describe_classes()
        about: dict[str, JsonValue] = {"model": model, "classes": classes, "data": data}
        if work.is_alone:
            about["alone"] = True
        self._files.write(model, encode_partial(share.partial, share.bins, about))
        return classes

    def _keep_linear(self, model: str, work: LinearWork, data: str) -> JsonValue:
        classes = work.describe_classes()
        about: dict[str, JsonValue] = {"model": model, "classes": classes, "data": data}
        share = work.party.share() if work.party.has_columns else NO_COLUMNS
        self._files.write(model, encode_linear_share(share, about), _LINEAR)
        return classes

    def has(self, model: str) -> bool:
        """Whether the model is here."""
        return self._files.has(model) or self.is_linear(model)

    def is_linear(self, model: str) -> bool:
        """Whether the model is here, and no forest."""
        return self._files.has(model, _LINEAR)

    def is_noisy(self, model: str) -> bool:
        """Whether labels of this party went into the model under noise only."""
        return self._files.has(model, _NOISY)

    def note_scoring(self, model: str, run: bytes) -> bool:
        """Whether this run may have votes of the model scored: the first that asked, and no other.

        With other votes for the same labels, scores would tell more and more of the labels.
        """
        if not self._files.has(model, _SCORED):
            self._files.write(model, run, _SCORED)
        return self._files.read(model, _SCORED) == run

    def drop_baseline(self, model: str) -> bool:
        """Forget a forest that was only grown to be scored; other models stay."""
        if not self.has(model):
            return True
        if self.is_linear(model) or not decode_partial(self._files.read(model)).metadata.get(
            "alone", False
        ):
            return False
        self._open.pop(model, None)
        self._files.remove(model)
        return True

    def read_forest(self, model: str) -> StoredForest:
        """A horizontal forest, which is whole at every party."""
        return decode_forest(self._files.read(model))

    def file(self, model: str) -> bytes:
        """A model as it is stored; the votes of rows left out are not in it."""
        return self._files.read(model)

    def read(self, model: str) -> tuple[PartyModel, NDArray[Any] | None]:
        """The party's share of a vertical forest and, at the label party, its classes."""
        opened = self._opened(model)
        classes = None if opened.classes is None else unpack_labels(opened.classes)
        return opened.model, classes

    def classes(self, model: str) -> JsonValue:
        """What class numbers mean, packed; None where this party does not know it."""
        if self.is_linear(model):
            return self._linear(model).classes
        try:
            return self._opened(model).classes
        except ModelFileError:  # a whole forest: the coordinator has it too
            return None

    def data_of(self, model: str) -> str:
        """The data set that a share was trained on here; empty where that is unknown."""
        if self.is_linear(model):
            return self._linear(model).data
        return self._opened(model).data

    def column_names(self, model: str) -> tuple[str, ...]:
        """The columns that predictions need."""
        if self.is_linear(model):
            return self._linear(model).share.design.names
        return self._opened(model).model.bins.names

    def predictor(self, model: str, table: Table, workers: Workers) -> Predictor:
        """Who answers one prediction with these columns, and what it may be asked."""
        if self.is_linear(model):
            return Predictor(LinearParty(table, share=self._linear(model).share), (ScoreRows,), 0)
        opened = self._opened(model)
        party = PredictingParty(opened.model, table, workers, opened.routes)
        return Predictor(party, prediction_messages.REQUESTS, opened.routes.depth)

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
            classes, data = (stored.metadata.get(key) for key in ("classes", "data"))
            self._open[model] = _Opened(share, classes, routes, str(data or ""))
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
