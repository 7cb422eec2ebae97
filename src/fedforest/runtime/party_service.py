"""A party as a process runs it: runs that survive its death, predictions, and its models.

Everything the coordinator says comes through `answer`, one request at a time. What a run needs to
go on is on the disk before the reply leaves; predictions are only in memory, and a coordinator that
asks about one that is gone begins it again.
"""

import logging
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import PredictionForgotten, ProtocolError
from fedforest.privacy.randomized_response import Entropy
from fedforest.protocol.asking import Handler, Message, blame, check
from fedforest.protocol.payloads import from_bytes
from fedforest.runtime.data_sets import DataSets
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.entropy import EntropySource
from fedforest.runtime.envelope import RunRequest
from fedforest.runtime.event_log import log_event
from fedforest.runtime.party_models import PartyModels
from fedforest.runtime.party_requests import (
    TO_PARTY,
    BeginPrediction,
    BeginRun,
    CountRows,
    Done,
    EndRun,
    InPrediction,
)
from fedforest.runtime.party_run import PartyRun
from fedforest.runtime.roles import AnyRole, PartyKeys, RoleMaker, Work
from fedforest.runtime.run_store import RunStore, StoredRun
from fedforest.transport.codec import decode, encode
from fedforest.tree.model_file import JsonValue
from fedforest.tree.table import Table
from fedforest.tree.workers import ALONE, Workers

_LOG = logging.getLogger(__name__)
MOST_PREDICTIONS = 64  # at the same time; the one that was silent longest is forgotten
MOST_RUNS = 8  # in memory; the others are on the disk, and go on from there
MOST_TABLES = 8  # kept for further predictions
_FORGOTTEN = "the prediction is unknown here, perhaps since a restart; begin it again"
_ROLE = msgspec.msgpack.Decoder(AnyRole)


@dataclass(slots=True)
class _Prediction:
    """A prediction underway, and the last request it answered."""

    endpoint: Any
    sequence: int = 0
    digest: bytes = b""
    reply: bytes = b""


class PartyService:
    """Answers a coordinator with the data sets of one party.

    Parameters
    ----------
    home : Path
        The party's folder, for runs and models.
    keys : PartyKeys
        Who the party is and whom it trusts.
    data : DataSets
        What it can take part with.
    workers : Workers
        Threads for its kernels.
    entropy : callable
        Where the secrets of runs are drawn from; tests pass a reproducible one.
    """

    def __init__(
        self,
        home: Path,
        keys: PartyKeys,
        data: DataSets,
        workers: Workers = ALONE,
        *,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        self._store = RunStore(home, entropy)
        self._models = PartyModels(home / "models")
        self._name = keys.name
        self._data = data
        self._workers = workers
        self._roles = RoleMaker(keys, data, self._models.read, workers)
        self._runs: OrderedDict[bytes, PartyRun] = OrderedDict()
        self._work: dict[bytes, Work] = {}
        self._predictions: OrderedDict[bytes, _Prediction] = OrderedDict()
        self._tables: OrderedDict[tuple[str, str], Table] = OrderedDict()
        self._handlers = {
            BeginRun: self._begin_run,
            EndRun: self._end_run,
            CountRows: self._count_rows,
        }

    def answer(self, data: bytes) -> bytes:
        """The reply to one request; raises what the coordinator is then told."""
        with blame("coordinator"):
            request = decode(data, TO_PARTY)
            if isinstance(request, RunRequest):
                return self._run(request.run).answer(request)
            if isinstance(request, InPrediction):
                return self._predict(request)
            started = time.perf_counter()
            reply = encode(self._handlers[type(request)](request))  # type: ignore[operator] # by type
            seconds = round(time.perf_counter() - started, 6)
            log_event(_LOG, "answered", step=type(request).__name__, seconds=seconds)
            return reply

    def close(self) -> None:
        """Let another process carry the runs on."""
        for run in self._runs.values():
            run.close()
        self._runs.clear()
        self._work.clear()

    def _begin_run(self, request: BeginRun) -> Done:
        description = msgspec.msgpack.encode(request.role)
        if self._store.is_finished(request.run):
            return Done()  # said again by a coordinator that was killed before it noted the end
        if self._store.has(request.run):
            is_same = self._run(request.run).description == description
            check(is_same, "the run was begun in another role")
            return Done()
        # made once before anything is stored: a role that cannot be leaves no trace
        self._roles.check(request.role)
        self._hold(self._store.begin(request.run, description))
        return Done()

    def _run(self, run: bytes) -> PartyRun:
        if run not in self._runs:
            if not self._store.has(run) or self._store.is_finished(run):
                raise ProtocolError(f"there is no run {run.hex()} underway at this party")
            self._hold(self._store.open(run))
        self._runs.move_to_end(run)
        return self._runs[run]

    def _hold(self, stored: StoredRun) -> None:
        """Have a run in memory, and no longer the one that was silent longest."""
        self._runs[stored.run] = PartyRun(stored, self._make_handler(stored.run))
        if len(self._runs) > MOST_RUNS:
            self._let_go(next(iter(self._runs)))

    def _let_go(self, run: bytes) -> None:
        """Have a run on the disk only."""
        if run in self._runs:
            self._runs.pop(run).close()
        self._work.pop(run, None)

    def _make_handler(self, run: bytes) -> Any:
        def make(
            description: bytes, entropies: EntropySource
        ) -> tuple[Handler, tuple[type[Message], ...]]:
            work = self._roles.make(_ROLE.decode(description), entropies)
            self._work[run] = work
            return work.party, work.requests

        return make

    def _end_run(self, request: EndRun) -> Done:
        """Keep the model and forget the run; said again, it is the same."""
        done = None
        if self._store.has(request.run):
            if request.model is not None and not self._store.is_finished(request.run):
                done = Done(self._keep_model(request.run, request.model))
            self._let_go(request.run)
            self._store.finish(request.run)  # also takes away what a crash in here left
        if done is None and request.model is not None and self._models.has(request.model):
            done = Done(self._models.classes(request.model))
        return done or Done()

    def _keep_model(self, run: bytes, model: str) -> JsonValue:
        party = self._run(run).handler  # caught up, also after a restart
        work = self._work[run]
        assert work.party is party
        return self._models.keep(model, work)

    def _count_rows(self, request: CountRows) -> Done:
        return Done(n_rows=self._table(request.model, request.data).n_rows)

    def _predict(self, request: InPrediction) -> bytes:
        known = self._predictions.get(request.prediction)
        if known is None:
            if request.begin is None:  # it was begun before this process was
                raise PredictionForgotten(_FORGOTTEN, self._name)
            known = self._begin_prediction(request.prediction, request.begin)
        self._predictions.move_to_end(request.prediction)
        digest = blake2b(request.payload, digest_size=16).digest()
        if request.sequence == known.sequence and digest == known.digest:
            return known.reply
        check(request.sequence == known.sequence + 1, "a request of a prediction is out of order")
        known.reply = known.endpoint(request.payload)
        known.sequence, known.digest = request.sequence, digest
        return known.reply

    def _begin_prediction(self, prediction: bytes, begin: BeginPrediction) -> _Prediction:
        table = self._table(begin.model, begin.data)
        if begin.rows is not None:
            table = table.take_rows(_read_rows(begin.rows, table.n_rows))
        begun = _Prediction(
            make_endpoint(*self._models.predictor(begin.model, table, self._workers))
        )
        self._predictions[prediction] = begun
        if len(self._predictions) > MOST_PREDICTIONS:
            self._predictions.popitem(last=False)
        return begun

    def _table(self, model: str, data: str) -> Table:
        """The columns of a data set that a model needs, read once for many predictions."""
        key = (model, data)
        if key not in self._tables:
            self._tables[key] = self._data.read(data).select(self._models.column_names(model))
            if len(self._tables) > MOST_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(key)
        return self._tables[key]


def _read_rows(data: memoryview, n_rows: int) -> NDArray[np.int64]:
    rows = from_bytes(data, "<i4", len(data) // 4, "rows").astype(np.int64)
    in_table = len(rows) > 0 and bool(rows.min() >= 0 and rows.max() < n_rows)
    check(in_table, "rows are asked for that are not in the data set")
    return rows
