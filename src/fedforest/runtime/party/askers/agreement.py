"""Compare what a coordinator asks of a party with what the user signed.

The user's request says which data sets, columns, rows and protections are used, and for what. From
it follow, by the same functions that the coordinator uses, the role of this party, the terms, and
the ids of the run and its parts. Whatever differs is refused.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace

from fedforest.protocol.payloads import from_bytes
from fedforest.runtime.messages.envelope import (
    ALIGNMENT_PART,
    MOST_BEGINNINGS,
    derive_part,
    derive_prediction,
    name_baseline,
)
from fedforest.runtime.messages.orders import (
    STANDARD_DAYS,
    AlignRows,
    AnyOrder,
    AnyRun,
    CompleteModel,
    DescribeTables,
    Order,
    PredictLinear,
    PredictVertical,
    StandingName,
    TrainingOrderOnWire,
)
from fedforest.runtime.messages.party_requests import (
    Asked,
    BeginPrediction,
    BeginRun,
    CountRows,
    DescribeData,
    FindPlaces,
    GiveShare,
)
from fedforest.runtime.messages.roles import AlignmentRole, Role, RowChoice
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.parts import Begun
from fedforest.runtime.trainings.forests import choose_rows
from fedforest.runtime.trainings.registry import training_of


class KnownAlignments(Protocol):
    """Knows the standing alignments of a party by their versions."""

    def name_of(self, version: str) -> str:
        """Return the name that its maker gave one."""

    def data_of(self, version: str) -> str:
        """Return the data set that one was made of."""


class Wish(NamedTuple):
    """What a user signed, as one party reads it."""

    order: AnyOrder
    id: bytes
    party: str  # this one
    standing: KnownAlignments
    trained_on: Collection[str] = ()  # the data sets of the model that predicts

    @property
    def alignment(self) -> str | None:
        """The id of the alignment that comes first; None without one."""
        is_aligned = isinstance(self.order, Order) and self.order.align
        return derive_part(self.id, ALIGNMENT_PART).hex() if is_aligned else None


def agrees(wish: Wish, request: Asked, prediction: bytes, whole: Begun | None) -> bool:
    """Tell whether a request is what the user signed.

    `prediction` is the id of a prediction that begins; `whole` is the run that a part belongs to.
    """
    order = wish.order
    if isinstance(request, GiveShare):
        return isinstance(order, CompleteModel) and order.model == request.model
    if not isinstance(order, Order):
        return False
    if isinstance(request, BeginRun):
        return _agrees_to_run(wish, order, request, whole)
    if isinstance(request, DescribeData):
        is_it = isinstance(order, DescribeTables)
    elif isinstance(request, FindPlaces):
        is_it = _agrees_to_ids(wish, order, request)
    else:
        is_it = _agrees_to_prediction(wish, order, request, prediction, whole)
    return is_it and _agrees_on_data(wish, order, request)


def _agrees_on_data(
    wish: Wish, order: Order, request: BeginPrediction | FindPlaces | CountRows | DescribeData
) -> bool:
    """Tell whether the data set is the one that was signed; none means the model's, or aligned."""
    if order.data:
        return order.data.get(wish.party) == request.data
    version = getattr(request, "standing", None)
    aligned = () if version is None else (wish.standing.data_of(version),)
    return request.data in (*wish.trained_on, *aligned)


def _agrees_to_prediction(
    wish: Wish,
    order: Order,
    request: CountRows | BeginPrediction,
    prediction: bytes,
    whole: Begun | None,
) -> bool:
    if isinstance(order, AnyRun):
        return _is_validation(wish, order, request, whole)
    if not isinstance(order, PredictVertical | PredictLinear) or order.model != request.model:
        return False
    names_rows = getattr(order, "rows", None) is not None or getattr(order, "ids", None) is not None
    is_served = isinstance(order.align, StandingName) and names_rows
    choice = RowChoice(alignment=wish.alignment) if order.align and not is_served else None
    is_begun = not isinstance(request, BeginPrediction) or (
        _begins(wish, order, request, prediction)
        and _is_served_by(wish, request.standing, _standing_name(order) if is_served else "")
    )
    return is_begun and request.choice == choice


def _agrees_to_ids(wish: Wish, order: Order, request: FindPlaces) -> bool:
    is_it = isinstance(order, PredictVertical) and order.ids == request.ids
    return is_it and _is_served_by(wish, request.standing, _standing_name(order))


def _standing_name(order: Order) -> str:
    return order.align.standing if isinstance(order.align, StandingName) else ""


def _is_served_by(wish: Wish, version: str | None, name: str) -> bool:
    """Tell whether a version of a standing alignment has this name; none has the empty one."""
    return name == ("" if version is None else wish.standing.name_of(version))


def _begins(wish: Wish, order: Order, begin: BeginPrediction, prediction: bytes) -> bool:
    """Tell whether a prediction begins under an id of the order, about its rows.

    Of rows that are named by ids, a party knows only how many they can be.
    """
    ids = [derive_prediction(wish.id, number) for number in range(MOST_BEGINNINGS)]
    rows, named = getattr(order, "rows", None), getattr(order, "ids", None)
    is_whole = rows is None and named is None
    if is_whole != (begin.rows is None) or prediction not in ids or begin.part_of:
        return False
    if begin.rows is None:
        return True
    asked = from_bytes(begin.rows, "<i4", len(begin.rows) // 4, "rows")
    if named is not None:
        return len(asked) <= len(named[0])
    return np.array_equal(asked, np.unique(np.array(rows, "<i4")))


def _is_validation(
    wish: Wish, order: Order, request: BeginPrediction | CountRows, whole: Begun | None
) -> bool:
    """Tell whether a prediction is of the rows that a run holds out, by the run or a baseline."""
    if whole is None or whole.role.rows is None or not whole.terms.validates:
        return False
    models = {wish.id.hex()}
    if whole.terms.stands_alone:
        models |= {derive_part(wish.id, name_baseline(party)).hex() for party in order.data}
    held_out = replace(whole.role.rows, is_validation=True)
    is_whole = not isinstance(request, BeginPrediction) or request.rows is None
    return is_whole and request.choice == held_out and request.model in models


def _agrees_to_run(wish: Wish, order: Order, request: BeginRun, whole: Begun | None) -> bool:
    role, terms = request.role, request.terms
    if order.data.get(wish.party) != role.data:
        return False
    if not isinstance(order, AnyRun):
        before = Terms(asker=order.asker, n_parties=len(order.data), aligns=True)
        return terms == before and _is_alignment(wish, order, request, None)
    training = training_of(order)
    own: Role = training.roles(order)[wish.party]
    if replace(terms, part_of="") != training.terms(order):
        return False
    if isinstance(role, AlignmentRole):
        return terms.part_of == wish.id.hex() and _is_alignment(wish, order, request, own)
    if terms.part_of:  # scores and baselines, which are compared with the run they belong to
        return whole is not None and terms.part_of == wish.id.hex()
    is_own = replace(role, rows=None) == replace(own, rows=None)
    return is_own and request.run == wish.id and _agrees_on_rows(wish, order, role.rows)


def _agrees_on_rows(wish: Wish, order: Order, rows: RowChoice | None) -> bool:
    if not isinstance(order, TrainingOrderOnWire):
        return rows is None
    if getattr(order, "continues", None) is not None:
        return True  # those of the forest that gets further trees
    if order.seed is None:
        return False  # rows that are held out follow from it
    return rows == choose_rows(order, wish.alignment)


def _is_alignment(wish: Wish, order: Order, request: BeginRun, own: Role | None) -> bool:
    """Tell whether a request begins the alignment that comes before what was ordered."""
    role, known = request.role, isinstance(own, AlignmentRole) or own is None
    if not isinstance(role, AlignmentRole) or request.run.hex() != wish.alignment:
        return False
    makes = order if isinstance(order, AlignRows) else AlignRows(data=order.data)
    named = _standing_name(order)
    wanted = AlignmentRole(
        data=role.data,
        peers=role.peers,
        method=order.alignment_method,
        label=None if known else own.label,  # type: ignore[union-attr] # known where it is None
        weight=None if known else own.weight,  # type: ignore[union-attr] # as above
        name=makes.name,
        days=(makes.days or STANDARD_DAYS) if makes.name else 0,
        extends=role.extends if makes.extends else None,
        recalls=role.recalls if named else None,
    )
    versions = [(role.extends, makes.extends), (role.recalls, named)]
    are_meant = all(_is_served_by(wish, version, name) for version, name in versions)
    peers = sorted(party for party in order.data if party != wish.party)
    return role == wanted and sorted(role.peers) == peers and are_meant
