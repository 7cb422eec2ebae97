"""Predictions that a party takes part in, and the tables it keeps for later ones.

Predictions are only in memory: if one is lost, the coordinator begins it again. The policy is read
when a prediction begins; the egress ledger records every reply.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, PredictionForgotten
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import from_bytes
from fedforest.runtime.disclosure.egress_ledger import Departure, Kind, Ledger
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.party_requests import BeginPrediction, CountRows, Done, InPrediction
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.approval import (
    LookaheadLimit,
    ModelUse,
    check_columns,
    check_origins,
    check_use,
)
from fedforest.runtime.party.askers.proofs import AskerProofs
from fedforest.runtime.party.askers.votes import VotesForAsker
from fedforest.runtime.party.data_sets import DataSet, DataSets
from fedforest.runtime.party.models import PartyModels
from fedforest.runtime.party.parts import Begun
from fedforest.runtime.party.policy import Policy
from fedforest.runtime.party.row_selection import take_rows
from fedforest.runtime.party.run import Clocked
from fedforest.runtime.party.serving.served_rows import RowServing
from fedforest.runtime.party.spending import PredictionQuota
from fedforest.tree.table.frames import Table
from fedforest.tree.table.pieces import TableSource
from fedforest.tree.workers import Workers

MOST_PREDICTIONS = 64  # at the same time; the least recently used one is dropped
MOST_TABLES = 8  # kept for later predictions
_LOG = logging.getLogger(__name__)
_FORGOTTEN = "the prediction is unknown here, perhaps since a restart; begin it again"


@dataclass(slots=True)
class _Prediction:
    """A prediction under way, and the last request it answered."""

    endpoint: Any
    party: Clocked
    model: str
    part_of: str = ""  # the id of the run that it validates
    sequence: int = 0
    digest: bytes = b""
    reply: bytes = b""


@dataclass(slots=True)
class _KeptTable:
    """The columns of a data set that a model needs, and their bins once rows were chosen."""

    data: DataSet
    table: TableSource
    binned: NDArray[np.uint8] | None = None
    is_binned: bool = False  # or was found too large


@dataclass(slots=True)
class PartyPredictions:
    """Answer the requests of all predictions of one party."""

    name: str
    data: DataSets
    models: PartyModels
    alignments: Alignments
    policy: Policy
    quota: PredictionQuota
    ledger: Ledger
    workers: Workers
    agreement: Callable[[str], Begun | None]  # of a run, by its id
    served: RowServing
    proofs: AskerProofs
    _underway: OrderedDict[bytes, _Prediction] = field(default_factory=OrderedDict, init=False)
    _tables: OrderedDict[tuple[str, str, RowChoice | None], _KeptTable] = field(
        default_factory=OrderedDict, init=False
    )

    def count_rows(self, request: CountRows) -> Done:
        """Count the rows of a prediction before it begins."""
        largest = self._approve(request)
        self.data.renew(request.data)
        n_rows = self._table(request.model, request.data, request.choice).table.n_rows
        return Done(n_rows=n_rows, largest_lookahead=largest)

    def _approve(self, asked: CountRows | BeginPrediction, prediction: bytes = b"") -> int:
        """Check the rules of the data set and of all that went into the model.

        Returns the largest lookahead that all of them allow.
        """
        rules = self.policy.rules(asked.data)
        check_use(rules, asked.data, asked.asker, "prediction", "prediction")
        columns = self.models.column_names(asked.model)
        check_columns(rules, asked.data, columns)
        origins = self.models.origins(asked.model)
        use = ModelUse(asked.asker, "prediction", "prediction")
        check_origins(self.policy, origins, columns, use)
        all_rules = [rules, *(self.policy.rules(origin.data) for origin in origins)]
        self.proofs.check(asked, all_rules, prediction, [origin.data for origin in origins])
        return min(each.largest_lookahead for each in all_rules)

    def answer(self, request: InPrediction) -> bytes:
        """Answer a request of a prediction; the last request may be repeated."""
        known = self._underway.get(request.prediction)
        if known is None:
            if request.begin is None:  # the prediction was dropped, or began before a restart
                raise PredictionForgotten.stating(_FORGOTTEN, party=self.name)
            known = self._begin(request.prediction, request.begin)
        self.models.check(known.model)  # it may have been withdrawn since the last request
        self._underway.move_to_end(request.prediction)
        digest = blake2b(request.payload, digest_size=16).digest()
        if request.sequence == known.sequence and digest == known.digest:
            self._note("resent", request, known)
            return known.reply
        check(request.sequence == known.sequence + 1, "a request of a prediction is out of order")
        known.reply = known.endpoint(request.payload)
        known.sequence, known.digest = request.sequence, digest
        self._note("sent", request, known)
        return known.reply

    def _note(self, kind: Kind, request: InPrediction, known: _Prediction) -> None:
        reply, n_bytes = known.party.reply, len(known.reply)
        departure = Departure.of_reply(kind, reply, n_bytes, request.prediction, request.sequence)
        self.ledger.record(departure._replace(part_of=known.part_of))

    def _begin(self, prediction: bytes, begin: BeginPrediction) -> _Prediction:
        self.proofs.check_new(prediction, begin)
        largest_lookahead = self._approve(begin, prediction)
        if begin.standing is not None:
            no_choice = begin.rows is not None and begin.choice is None
            check(no_choice, "a standing alignment serves rows that are named")
            self.served.check(begin.standing, begin.data, begin.asker)
        was_counted = begin.rows is None and not self.models.is_linear(begin.model)
        if not was_counted:  # counted rows must stay the same
            self.data.renew(begin.data)
        whole = self.agreement(begin.part_of)
        if whole is not None:
            whole.check_snapshot(self.data.read(begin.data), begin.part_of)
        kept = self._table(begin.model, begin.data, begin.choice, by_id=begin.standing is not None)
        table, binned, rows = kept.table, None, None
        if begin.rows is not None:
            rows = self._chosen_rows(begin, begin.rows, table.n_rows)
        n_rows = table.n_rows if rows is None else len(rows)
        self.quota.take(self.policy.rules(begin.data), begin.asker, n_rows)
        if rows is not None:
            binned = self._bins_of(begin.model, kept, rows)
            # bins are all that a forest asks of a table besides the number of its rows
            no_columns = Table((), (), n_rows, has_names=True)
            table = table.take_rows(rows) if binned is None else no_columns
        handler, requests, depth = self.models.predictor(begin.model, table, self.workers, binned)
        asked = VotesForAsker.of(handler, begin.proof)
        party = Clocked(LookaheadLimit(asked, largest_lookahead, depth))
        begun = _Prediction(make_endpoint(party, requests), party, begin.model, begin.part_of)
        self._underway[prediction] = begun
        self.proofs.note(prediction, begin)
        log_event(
            _LOG,
            "prediction",
            model=begin.model,
            data=begin.data,
            user=begin.asker,
            part_of=begin.part_of or None,
            n_rows=table.n_rows,
        )
        if len(self._underway) > MOST_PREDICTIONS:
            self._underway.popitem(last=False)
        return begun

    def _chosen_rows(
        self, begin: BeginPrediction, rows: memoryview, n_rows: int
    ) -> NDArray[np.int64]:
        """Return the rows that a prediction names, in the data set or in its common order."""
        if begin.standing is None:
            return _read_rows(rows, n_rows)
        places = from_bytes(rows, "<i4", len(rows) // 4, "rows").astype(np.int64)
        return self.served.take(begin, places)

    def _table(
        self, model: str, data: str, choice: RowChoice | None, *, by_id: bool = False
    ) -> _KeptTable:
        """Return the columns of a data set that a model needs; kept for later predictions."""
        key, now = (model, data, choice), self.data.read(data)
        if now.n_erased and not by_id and (choice is None or choice.alignment is None):
            raise DataError.of("erased.order", data_set=data)
        if key not in self._tables or self._tables[key].data is not now:
            chosen = take_rows(now, choice, self.alignments)
            table = chosen.select(self.models.column_names(model))
            self._tables[key] = _KeptTable(now, table)
            if len(self._tables) > MOST_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(key)
        return self._tables[key]

    def _bins_of(
        self, model: str, kept: _KeptTable, rows: NDArray[np.int64]
    ) -> NDArray[np.uint8] | None:
        """Return the bins of some rows, from those of the whole table, which is binned once."""
        if not kept.is_binned and isinstance(kept.table, Table):
            kept.binned = self.models.bin_table(model, kept.table, self.workers)
        kept.is_binned = True
        return None if kept.binned is None else np.ascontiguousarray(kept.binned[:, rows])


def _read_rows(data: memoryview, n_rows: int) -> NDArray[np.int64]:
    rows = from_bytes(data, "<i4", len(data) // 4, "rows").astype(np.int64)
    in_table = len(rows) > 0 and bool(rows.min() >= 0 and rows.max() < n_rows)
    check(in_table, "rows are asked for that are not in the data set")
    check(len(np.unique(rows)) == len(rows), "a row is asked for twice")
    return rows
