"""Growing on from a fitted vertical forest in this process: which one, and over which columns.

`runtime/trainings/warm_start.py` checks that a request agrees with the earlier forest.
"""

import warnings
from typing import Any

from fedforest.errors import ConfigurationError
from fedforest.estimators.inputs.party_tables import ColumnDivision, Parties, Source
from fedforest.estimators.vertical.model import VerticalModel
from fedforest.runtime.trainings.warm_start import ANEW


def find_earlier(estimator: Any) -> VerticalModel | None:
    """Return the model that a warm start grows on; raises where it cannot."""
    if not estimator.warm_start or not hasattr(estimator, "_model"):
        return None
    model: VerticalModel = estimator._local_model("grow on")
    if model.coordinator.seed is None:
        raise ConfigurationError(
            f"A forest read from files cannot grow on: files hold no seed. {ANEW}"
        )
    return model


def warn_of_no_new_trees() -> None:
    """To the caller of `fit`: the forest is as it was, and no party was asked for anything."""
    text = "Warm-start fitting without increasing n_estimators does not fit new trees."
    warnings.warn(text, stacklevel=3)


def continue_division(model: VerticalModel, source: Source, parties: Parties) -> ColumnDivision:
    """Return the division of earlier fits, if it is still the one that is asked for."""
    division = model.division
    division.split(source)  # raises for other parties or columns
    if division.shares is not None and ColumnDivision.of(source, parties) != division:
        raise ConfigurationError(
            "parties divides the columns in another way than in earlier fits; a warm start goes "
            f"on with the same parties. {ANEW}"
        )
    return division
