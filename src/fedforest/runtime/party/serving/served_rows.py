"""The rows that a standing alignment serves: prepared once, looked up for every prediction.

A row is named by its number in the common order, which all parties share, or by its id, which one
party finds. Both stay the same while the alignment is not extended, whatever happens to the data
set. The file of the alignment, its time and the policy are looked at for every request.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.protocol.alignment.standing_alignment import (
    Points,
    StandingIds,
    find_points,
    find_rows,
    tag_ids,
)
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import to_bytes
from fedforest.runtime.messages.party_requests import BeginPrediction, FindPlaces, PlacesFound
from fedforest.runtime.party.approval import check_use, refusal
from fedforest.runtime.party.catalogue.ids import normalise_ids
from fedforest.runtime.party.data_sets import DataSet, DataSets
from fedforest.runtime.party.policy import Policy
from fedforest.runtime.party.spending import PredictionQuota
from fedforest.runtime.party.standing_alignments import PartyStandingAlignments

MOST_PREPARED = 4  # standing alignments, each with one data set
_ABSENT = -1


class _Prepared(NamedTuple):
    """One standing alignment, and where its rows are in one data set."""

    data: DataSet
    secret: bytes
    tags: Points  # of the common ids, ascending
    place_of_tag: NDArray[np.int64]
    row_of_place: NDArray[np.int64]  # _ABSENT where the data set has no such row now


@dataclass(slots=True)
class RowServing:
    """Finds rows and ids of standing alignments for predictions."""

    data: DataSets
    standing: PartyStandingAlignments
    policy: Policy
    quota: PredictionQuota
    _prepared: OrderedDict[tuple[str, str, object], _Prepared] = field(
        default_factory=OrderedDict, init=False
    )

    def check(self, version: str, data: str, asker: str, asked: str = "rows") -> None:
        """Refuse what the rules of the data set, and of the one that was aligned, do not allow."""
        made_of = self.standing.data_of(version)
        for name in dict.fromkeys((made_of, data)):
            rules = self.policy.rules(name)
            check_use(rules, name, asker, "prediction", "prediction")
            self.standing.check(version, rules)
            if not rules.alignment:
                raise refusal("alignment", "prediction", data_set=name)
            if rules.standing_serving not in (asked, "ids"):
                raise refusal("standing_serving", "prediction", asked=asked, data_set=name)

    def find(self, request: FindPlaces) -> PlacesFound:
        """Find ids in the common order; each counts as a row of the asker's quota."""
        self.check(request.standing, request.data, request.asker, "ids")
        self.data.renew(request.data)
        prepared = self._prepare(request.standing, request.data)
        ids = _read_ids(prepared.data, request.ids)
        self.quota.take(self.policy.rules(request.data), request.asker, len(ids))
        wanted = tag_ids(prepared.secret, ids, np.arange(len(ids)))
        is_common, at = _look_up(prepared.tags, wanted)
        return PlacesFound(to_bytes(np.where(is_common, prepared.place_of_tag[at], _ABSENT), "<i4"))

    def take(self, begin: BeginPrediction, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the data set at these places of the common order."""
        assert begin.standing is not None
        row_of_place = self._prepare(begin.standing, begin.data).row_of_place
        if not len(places) or places.min() < 0 or places.max() >= len(row_of_place):
            raise DataError.of("standing.place", alignment=begin.standing)
        check(len(np.unique(places)) == len(places), "a row is asked for twice")
        rows = row_of_place[places]
        if rows.min() == _ABSENT:
            raise DataError.of("standing.gone", data_set=begin.data)
        return rows

    def _prepare(self, version: str, data: str) -> _Prepared:
        now, stamp = self.data.read(data), self.standing.stamp(version)
        key = version, data, stamp
        if key not in self._prepared or self._prepared[key].data is not now:
            self._prepared[key] = _prepare(self.standing.read(version), now)
            if len(self._prepared) > MOST_PREPARED:
                self._prepared.popitem(last=False)
        self._prepared.move_to_end(key)
        return self._prepared[key]


def _prepare(standing: StandingIds, data: DataSet) -> _Prepared:
    ids = data.own_ids()
    rows = find_rows(ids)
    entries, common = standing.find(ids, rows), standing.read_common()
    row_of_entry = np.full(standing.n_own, _ABSENT, np.int64)
    row_of_entry[entries[entries >= 0]] = rows[entries >= 0]
    tags = np.frombuffer(standing.tags, "S16")[common]
    order = np.argsort(tags)
    return _Prepared(data, standing.secret, tags[order], order, row_of_entry[common])


def _look_up(known: Points, wanted: Points) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Tell which of the wanted are among those in order, and where."""
    if not len(known):
        return find_points(wanted, known)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return known[places] == wanted, places


def _read_ids(data: DataSet, named: list[list[str]]) -> list[bytes]:
    """Bring ids that an asker names to the form that the data set's own ids have."""
    import pyarrow  # noqa: PLC0415 - only parties with tables need it

    if data.id_columns is None:
        raise DataError.of("data_set.no_id", data_set=data.name)
    names = data.id_columns.column_names
    if len(named) != len(names):
        raise DataError.of("standing.id_columns", data_set=data.name, limit=len(names))
    check(len({len(texts) for texts in named}) == 1, "columns of ids have several lengths")
    columns = [pyarrow.array(texts, pyarrow.string()) for texts in named]
    table = pyarrow.table(columns, names=names)
    return list(normalise_ids(data.name, table, data.id_rules))
