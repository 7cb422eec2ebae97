"""A vertical forest put together as a whole, which every party has to allow.

Who learns what: whoever gets the file sees every party's splits, bin edges and column names, and
the names of classes. So the coordinator asks each party, each party answers by its own settings,
and nothing is kept at the coordinator: the file goes to who asked for it.
"""

from typing import TYPE_CHECKING, Any

from fedforest.errors import ModelFileError
from fedforest.protocol.asking import blame
from fedforest.runtime.coordinator_models import CoordinatorModel
from fedforest.runtime.orders import CompleteModel
from fedforest.runtime.party_requests import GiveShare, ShareGiven
from fedforest.transport.base import Transport
from fedforest.transport.codec import decode, encode
from fedforest.tree.bins import Bins
from fedforest.tree.class_labels import unpack_labels
from fedforest.tree.forest_file import StoredPartial, decode_partial, encode_forest
from fedforest.tree.partial import union

if TYPE_CHECKING:
    from fedforest.tree.canonical_json import JsonValue


def gather(order: CompleteModel, model: CoordinatorModel, transport: Transport) -> bytes:
    """The complete forest as one model file; raises what a party says against it."""
    shares = _ask_for_shares(order, model, transport)
    stored = [shares[party] for party in model.parties]
    forest = union(model.outline, [share.partial for share in stored])
    bins = Bins.concatenate([share.bins for share in stored])
    about: dict[str, JsonValue] = {
        "model": order.model,
        "parties": list(model.parties),
        "columns_per_party": [share.bins.n_features for share in stored],
    }
    return encode_forest(forest, bins, _find_classes(shares, model), about)


def _ask_for_shares(
    order: CompleteModel, model: CoordinatorModel, transport: Transport
) -> dict[str, StoredPartial]:
    request = encode(GiveShare(order.model, order.asker))
    shares = {}
    for party, data in transport.exchange(dict.fromkeys(model.parties, request)).items():
        with blame(party):
            given = decode(data, (ShareGiven,))
            assert isinstance(given, ShareGiven)
            shares[party] = decode_partial(given.share)
    return shares


def _find_classes(shares: dict[str, StoredPartial], model: CoordinatorModel) -> Any:
    """What the label party calls the classes."""
    if model.outline.n_classes == 0:
        return None
    for share in shares.values():
        packed = share.metadata.get("classes")
        if packed is not None:
            return unpack_labels(packed)
    raise ModelFileError("no party's share has the names of classes; the label party's is damaged")
