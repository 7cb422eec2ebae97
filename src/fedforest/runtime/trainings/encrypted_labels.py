"""Vertical training where labels are encrypted: which handlers, messages and contract it has.

The handlers need an optional library and are imported when a run encrypts labels. Everything else
of the training is that of any vertical training (`vertical.py`).
"""

from fedforest.errors import ConfigurationError
from fedforest.protocol.asking import Conversation, check
from fedforest.protocol.contract import Gate
from fedforest.protocol.vertical.contract import VerticalDeclared
from fedforest.protocol.vertical.encrypted.contract import CONTRACT
from fedforest.protocol.vertical.labels import LabelSource
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.protocol.vertical.party import PartyModel, VerticalParty
from fedforest.runtime.messages.orders import TrainVertical
from fedforest.runtime.messages.roles import VerticalRole
from fedforest.runtime.trainings import forests
from fedforest.runtime.trainings.base import CoordinatorMeans
from fedforest.runtime.trainings.party_task import PartyMeans
from fedforest.tree.table.pieces import TableSource


def check_order(order: TrainVertical) -> None:
    """Refuse what does not go together with encryption."""
    if order.encrypts_labels and order.label_epsilon is not None:
        raise ConfigurationError("labels are either encrypted or noisy; choose one protection")


def list_peers(order: TrainVertical, party: str) -> tuple[str, ...]:
    """List the parties whose fingerprints a party needs."""
    return tuple(other for other in order.data if other != party and order.encrypts_labels)


def lead(order: VerticalOrder, means: CoordinatorMeans) -> Conversation[TrainedForest]:
    """Start the coordinator's side."""
    from fedforest.protocol.vertical.encrypted.coordinator import (  # noqa: PLC0415 - an extra
        train_encrypted,
    )

    return train_encrypted(order, means.run, means.workers)


def make_party(
    role: VerticalRole,
    table: TableSource,
    labels: LabelSource | None,
    before: PartyModel | None,
    means: PartyMeans,
) -> VerticalParty:
    """Make the handler of one party: the label party decides, others sum what it encrypted."""
    from fedforest.protocol.vertical.encrypted.label_party import (  # noqa: PLC0415 - an extra
        LabelParty,
    )
    from fedforest.protocol.vertical.encrypted.party import (  # noqa: PLC0415 - an extra
        ColumnParty,
    )

    parameters = forests.declared_forest(means.terms)
    member = means.keys.member(means.randomness)
    approve, workers = means.accountant.approve, means.workers
    if labels is not None:
        return LabelParty(
            table, member, labels, parameters, model=before, approve=approve, workers=workers
        )
    check(role.label_party is not None, "the role does not say whose key encrypts labels")
    assert role.label_party is not None
    return ColumnParty(
        table,
        member,
        role.label_party,
        model=before,
        approve=approve,
        max_depth=parameters.depth_limit,
        workers=workers,
    )


def make_gate(
    declared: VerticalDeclared, party: VerticalParty, means: PartyMeans
) -> Gate[VerticalDeclared]:
    """Put the contract in front of a party."""
    return Gate(CONTRACT, declared, party, means.accountant)
