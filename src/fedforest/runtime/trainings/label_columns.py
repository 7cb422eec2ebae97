"""Read the labels and weights that a request names, for every training with labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.orders import ClassWeight, TrainLinear, TrainVertical
from fedforest.runtime.messages.roles import Role
from fedforest.runtime.trainings.party_task import PartyData
from fedforest.tree.table.target_checks import check_weights


def check_label_party(order: TrainVertical | TrainLinear) -> None:
    """Refuse a label party that takes no part."""
    if order.label_party not in order.data:
        raise ConfigurationError(f"label party {order.label_party!r} is none of the parties")


def read_class_weight(weight: ClassWeight) -> Any:
    """Return the class weight as in scikit-learn; a mapping is sent as a list of pairs."""
    return dict(weight) if isinstance(weight, list) else weight


def read_weights(role: Role, data: PartyData, n_rows: int) -> NDArray[np.float64] | None:
    """Read the weights of rows; None if the role names no column of them."""
    return None if role.weight is None else check_weights(data.column(role.weight), n_rows)
