"""Names of classes, which the label party chooses and the user's estimator works with.

The label party checks them before a training, the coordinator when they arrive: a training that
took hours must not fail on them at the user.
"""

from collections.abc import Mapping
from typing import Any

from fedforest.errors import DamagedModelError, DataError, ProtocolError
from fedforest.protocol.asking import blame, check
from fedforest.runtime.trainings.party_task import Classes
from fedforest.tree.table.class_labels import (
    LONGEST_CLASS_NAME,
    are_fit_for_names,
    unpack_labels,
)


def check_own_classes(classes: Classes) -> Classes:
    """Refuse labels that a coordinator would not take as names of classes."""
    if classes is not None and not are_fit_for_names(classes.tolist()):
        raise DataError.stating(
            "A class label holds a control character or a mark of direction, or is longer than "
            "{length} characters; name the class anew.",
            length=LONGEST_CLASS_NAME,
        )
    return classes


def check_class_names(
    names_by_party: Mapping[str, Any], label_party: str | None, n_classes: int
) -> None:
    """Refuse what a party says its classes are, unless it is one name for each of the run's."""
    for party, names in names_by_party.items():
        with blame(party):
            if party == label_party and n_classes:
                _check_names(names, n_classes)
            else:
                check(names is None, "it names classes, and has none in this run")


def _check_names(names: Any, n_classes: int) -> None:
    check(names is not None, "it names no classes, and has the labels of this run")
    try:
        labels = unpack_labels(names).tolist()
    except DamagedModelError:
        raise ProtocolError.stating("its names of classes cannot be read") from None
    check(len(labels) == n_classes, "it has more or fewer names than the run has classes")
    check(
        are_fit_for_names(labels),
        "a name of a class holds a control character or a mark of direction",
    )
