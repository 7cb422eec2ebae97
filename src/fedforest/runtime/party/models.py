"""The models of a party: partial forests, coefficients of linear models, and whole forests.

    <home>/models/<id>.share or .linear   the model; <id> is that of the run that made it
                 /<id>.origins            what went into it here; never sent, and written first

A model is written once: when the end of its run is repeated, after a crash, it stays as it is.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ModelFileError
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.asking import Handler, Message
from fedforest.protocol.contract import Gate
from fedforest.protocol.linear.messages import ScoreRows
from fedforest.protocol.linear.party import LinearParty, LinearShare
from fedforest.protocol.linear.prediction_contract import CONTRACT as LINEAR_PREDICTION
from fedforest.protocol.vertical.out_of_bag import AnswerKey, OutOfBagRecord
from fedforest.protocol.vertical.party import PartyModel
from fedforest.protocol.vertical.prediction import messages as prediction_messages
from fedforest.protocol.vertical.prediction.contract import make_gate
from fedforest.protocol.vertical.prediction.party import PredictingParty
from fedforest.protocol.vertical.prediction.voting import VotingParty
from fedforest.runtime.recovery.linear_files import (
    StoredLinearShare,
    decode_linear_share,
    encode_linear_share,
)
from fedforest.runtime.recovery.model_folder import StoredModels
from fedforest.runtime.trainings.origins import Origin, Origins
from fedforest.runtime.trainings.party_task import KeptOutcome
from fedforest.tree.canonical_json import JsonValue
from fedforest.tree.files.container import decode_model, encode_model
from fedforest.tree.files.forests import (
    StoredForest,
    decode_forest,
    decode_partial,
    encode_partial,
)
from fedforest.tree.forest.routes import OwnRoutes
from fedforest.tree.forest.votes import ForestVotes
from fedforest.tree.table.class_labels import unpack_labels
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.workers import Workers

MOST_OPEN = 8  # models that are kept in memory
MOST_BINNED_BYTES = 2**25  # of a table that is kept ready for predictions of chosen rows
_VOTES = "out-of-bag-votes"
_LINEAR = "linear"  # this party's coefficients of a linear model
_NOISY = "noisy"  # an empty file that marks a model trained on noisy labels
_SCORED = "scored"  # the file with the id of the run that scored the model
_ORIGINS = "origins"  # the file that says what went into the model


class _Opened(NamedTuple):
    model: PartyModel
    classes: JsonValue
    routes: OwnRoutes
    votes: ForestVotes | None  # at the label party of encrypted labels


class Predictor(NamedTuple):
    """A party in one prediction."""

    handler: Handler
    requests: tuple[type[Message], ...]
    depth: int  # of the trees; 0 where there are none


class PartyModels:
    """Store models under the ids that the coordinator gave them."""

    def __init__(self, folder: Path) -> None:
        self._files = StoredModels(folder)
        self._open: OrderedDict[str, _Opened] = OrderedDict()

    def keep_partial(
        self, kept: KeptOutcome, share: PartyModel, about: Mapping[str, JsonValue]
    ) -> None:
        """Store a partial forest; out-of-bag votes go to a file that is never sent."""
        record, is_noisy = share.out_of_bag, any(map(_has_noise, kept.origins))
        beside: dict[str, bytes] = {}
        if record is not None and record.votes.counts.any():
            beside["votes"] = _encode_votes(record)
        if is_noisy or (record is not None and record.key.response is not None):
            beside[_NOISY] = b""
        file = encode_partial(share.partial, share.bins, about, share.outline)
        self._keep(kept, beside, file)

    def keep_forest(self, kept: KeptOutcome, file: bytes, *, is_noisy: bool) -> None:
        """Store a whole forest."""
        self._keep(kept, {_NOISY: b""} if is_noisy else {}, file)

    def keep_linear(
        self, kept: KeptOutcome, share: LinearShare, about: Mapping[str, JsonValue]
    ) -> None:
        """Store the coefficients of this party's columns."""
        self._keep(kept, {}, encode_linear_share(share, about), _LINEAR)

    def _keep(
        self, kept: KeptOutcome, beside: Mapping[str, bytes], file: bytes, kind: str = "share"
    ) -> None:
        """Store a model after all that belongs to it; one that is stored stays as it is."""
        if self.has(kept.id):
            return
        self._files.write(kept.id, msgspec.json.encode(kept.origins), _ORIGINS)
        for name, data in beside.items():
            self._files.write(kept.id, data, name)
        self._files.write(kept.id, file, kind)

    def has(self, model: str) -> bool:
        """Tell whether this party has the model."""
        return self._files.has(model) or self.is_linear(model)

    def check(self, model: str) -> None:
        """Raise `ModelFileError` if the model is withdrawn, which is looked up each time."""
        try:
            self._files.check(model)
        except ModelFileError:
            self._open.pop(model, None)
            raise

    def withdraw(self, model: str, by: str, *, asks_deletion: bool = False) -> None:
        """Withdraw a model for good; its files stay until the owner deletes them."""
        self._files.withdraw(model, by)
        if asks_deletion:
            self._files.ask_deletion(model, by)

    def is_linear(self, model: str) -> bool:
        """Tell whether this party has the model and it is linear."""
        return self._files.has(model, _LINEAR)

    def is_noisy(self, model: str) -> bool:
        """Tell whether this party's labels went into the model only with noise."""
        return self._files.has(model, _NOISY)

    def note_scoring(self, model: str, run: bytes) -> bool:
        """Tell whether this run may have votes of the model scored: only the first run may.

        Scores of other votes for the same labels would reveal more and more of the labels.
        """
        if not self._files.has(model, _SCORED):
            self._files.write(model, run, _SCORED)
        return self._files.read(model, _SCORED) == run

    def drop_baseline(self, model: str) -> bool:
        """Delete a baseline; return False, and keep the model, if it is none."""
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
        """Read a horizontal forest, which is whole at every party."""
        return decode_forest(self._files.read(model))

    def share(self, model: str) -> bytes:
        """Read a partial forest as it is stored; out-of-bag votes and origins are not in it."""
        self._opened(model)  # raises if it is another kind of model
        return self._files.read(model)

    def read(self, model: str) -> tuple[PartyModel, NDArray[Any] | None]:
        """Read the party's partial forest and, at the label party, its classes."""
        opened = self._opened(model)
        classes = None if opened.classes is None else unpack_labels(opened.classes)
        return opened.model, classes

    def classes(self, model: str) -> JsonValue:
        """Return the packed class names; None if this party does not know them."""
        if self.is_linear(model):
            return self._linear(model).classes
        try:
            return self._opened(model).classes
        except ModelFileError:  # a whole forest: the coordinator has it too
            return None

    def origins(self, model: str) -> Origins:
        """Return the trainings that went into the model, and what they used here."""
        self.check(model)
        if self.has(model) and not self._files.has(model, _ORIGINS):
            raise ModelFileError.of("model.no_origins", model=model)
        try:
            return msgspec.json.decode(self._files.read(model, _ORIGINS), type=Origins)
        except msgspec.DecodeError:
            raise ModelFileError.of("model.unusable", detail="its origins are damaged") from None

    def column_names(self, model: str) -> tuple[str, ...]:
        """Return the columns that predictions need."""
        if self.is_linear(model):
            return self._linear(model).share.design.names
        try:
            return self._opened(model).model.bins.names
        except ModelFileError:
            return self.read_forest(model).bins.names

    def bin_table(
        self, model: str, table: TableSource, workers: Workers
    ) -> NDArray[np.uint8] | None:
        """Return the bins of a table, (columns, rows); None if the model has none, or too many."""
        n_bytes = table.n_rows * len(self.column_names(model))
        if self.is_linear(model) or n_bytes > MOST_BINNED_BYTES:
            return None
        return self._opened(model).model.bins.transform(table, workers)

    def predictor(
        self,
        model: str,
        table: TableSource,
        workers: Workers,
        binned: NDArray[np.uint8] | None = None,
    ) -> Predictor:
        """Make the handler of one prediction with these columns, and list its requests."""
        if self.is_linear(model):
            scoring = LinearParty(table.load(), share=self._linear(model).share)
            return Predictor(Gate(LINEAR_PREDICTION, None, scoring), (ScoreRows,), 0)
        opened = self._opened(model)
        party = PredictingParty(opened.model, table, workers, opened.routes, binned=binned)
        voting = VotingParty(party, opened.votes, table.n_rows, secrets.token_bytes, workers)
        gate = make_gate(voting, table.n_rows)
        return Predictor(gate, prediction_messages.REQUESTS, opened.routes.depth)

    def _linear(self, model: str) -> StoredLinearShare:
        """Read a linear model from the disk; it is too small to be worth keeping in memory."""
        return decode_linear_share(self._files.read(model, _LINEAR))

    def _opened(self, model: str) -> _Opened:
        self.check(model)
        if model not in self._open:
            stored = decode_partial(self._files.read(model))
            left_out = self._files.read(model, "votes") if self._files.has(model, "votes") else None
            record = None if left_out is None else _decode_votes(left_out)
            share = PartyModel(stored.bins, stored.partial, record, stored.outline)
            routes = OwnRoutes.of(stored.partial)
            votes = None if stored.outline is None else ForestVotes(stored.outline)
            self._open[model] = _Opened(share, stored.metadata.get("classes"), routes, votes)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(model)
        return self._open[model]


def _has_noise(origin: Origin) -> bool:
    return origin.label_epsilon is not None


def _encode_votes(record: OutOfBagRecord) -> bytes:
    """Encode votes and the labels they are compared with; the file stays at the label party."""
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
