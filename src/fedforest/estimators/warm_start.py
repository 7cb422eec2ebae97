"""Growing on from a fitted vertical forest: what must be as it was, and what is refused."""

import warnings

from fedforest.errors import ConfigurationError
from fedforest.estimators.party_tables import Division, Parties, Source
from fedforest.estimators.vertical_model import Origin, VerticalModel

_ANEW = "Set warm_start=False to start anew."


def find_origin(model: VerticalModel, n_estimators: int) -> Origin:
    """Where the training of a model left off; raises where it cannot be gone on with."""
    if model.origin is None:
        raise ConfigurationError(
            f"A forest read from shares cannot grow on: shares hold no seed. {_ANEW}"
        )
    check_more_trees(n_estimators, model.origin.n_trees_seeded)
    return model.origin


def check_more_trees(n_estimators: int, n_trees_seeded: int) -> None:
    """A forest is not grown backwards."""
    if n_estimators < n_trees_seeded:
        raise ConfigurationError(
            f"n_estimators={n_estimators} must be larger or equal to the "
            f"{n_trees_seeded} trees of earlier fits when warm_start=True. {_ANEW}"
        )


def warn_of_no_new_trees() -> None:
    """To whoever called `fit`: the forest is as it was, and nobody was asked for anything."""
    text = "Warm-start fitting without increasing n_estimators does not fit new trees."
    warnings.warn(text, stacklevel=3)


def continue_division(model: VerticalModel, source: Source, parties: Parties) -> Division:
    """The division of earlier fits, if it is still the one that is asked for."""
    division = model.division
    division.split(source)  # raises for other parties or columns
    if division.shares is not None and Division.of(source, parties) != division:
        raise ConfigurationError(
            "parties divides the columns in another way than in earlier fits; a warm start goes "
            f"on with the same parties. {_ANEW}"
        )
    return division


def check_label_party(earlier: str, label_party: str) -> None:
    """Labels stay where they were."""
    if label_party != earlier:
        raise ConfigurationError(
            f"label_party is {label_party!r}, but earlier fits had {earlier!r}; a warm "
            f"start goes on with the same parties. {_ANEW}"
        )
