"""Join the partial forests of all parties into one complete vertical forest.

The file shows its reader every party's splits, bin edges and column names, and the names of
classes. So each party must allow it by its own policy. The coordinator keeps no copy: the file goes
to the user who asked for it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedforest.errors import ModelFileError
from fedforest.protocol.asking import blame, check
from fedforest.runtime.driver import ask_once
from fedforest.runtime.messages.orders import CompleteModel
from fedforest.runtime.messages.party_requests import GiveShare
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.transport.base import Transport
from fedforest.tree.files.forests import StoredPartial, decode_partial, encode_forest
from fedforest.tree.forest.partial import ForestOutline, union
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.class_labels import unpack_labels

if TYPE_CHECKING:
    from fedforest.tree.canonical_json import JsonValue


def gather(
    order: CompleteModel, model: CoordinatorModel, transport: Transport, proof: bytes
) -> bytes:
    """Return the complete forest as one model file; raises the refusal of any party."""
    request = GiveShare(order.model, order.asker, proof)
    shares = _ask_for_shares(request, model, transport)
    stored = [shares[party] for party in model.parties]
    outline = model.outline
    if model.is_encrypted:
        outline = _add_leaves(outline, model.label_party, shares)
    forest = union(outline, [share.partial for share in stored])
    bins = Bins.concatenate([share.bins for share in stored])
    about: dict[str, JsonValue] = {
        "model": order.model,
        "parties": list(model.parties),
        "columns_per_party": [share.bins.n_features for share in stored],
    }
    return encode_forest(forest, bins, _find_classes(shares, model), about)


def _ask_for_shares(
    request: GiveShare, model: CoordinatorModel, transport: Transport
) -> dict[str, StoredPartial]:
    shares = {}
    for party, given in ask_once(dict.fromkeys(model.parties, request), transport.exchange).items():
        with blame(party):
            shares[party] = decode_partial(given.share)
    return shares


def _add_leaves(
    outline: ForestOutline, label_party: str, shares: dict[str, StoredPartial]
) -> ForestOutline:
    """Add what leaves say, which the label party gave away with its splits."""
    known = shares[label_party].outline
    with blame(label_party):
        check(known is not None, "its partial forest does not say what leaves predict")
        assert known is not None
        is_same = np.array_equal(known.shape.left_child, outline.shape.left_child)
        check(is_same, "its partial forest is of other trees")
    return outline.with_leaves_of(known)


def _find_classes(shares: dict[str, StoredPartial], model: CoordinatorModel) -> Any:
    """Return the class names, which only the label party's partial forest has."""
    if model.outline.n_classes == 0:
        return None
    for share in shares.values():
        packed = share.metadata.get("classes")
        if packed is not None:
            return unpack_labels(packed)
    raise ModelFileError("no party's share has the names of classes; the label party's is damaged")
