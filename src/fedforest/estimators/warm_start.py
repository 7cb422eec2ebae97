"""Growing on from a fitted vertical forest: what must be as it was, and what is refused."""

from fedforest.errors import ConfigurationError, DataError
from fedforest.estimators.party_tables import Division, Parties, Source
from fedforest.estimators.vertical_model import Origin, VerticalModel

_ANEW = "Set warm_start=False to start anew."


def find_origin(model: VerticalModel, n_estimators: int) -> Origin:
    """Where the training of a model left off; raises where it cannot be gone on with."""
    if model.origin is None:
        raise ConfigurationError(
            f"A forest read from shares cannot grow on: shares hold no seed. {_ANEW}"
        )
    if n_estimators < model.origin.n_trees_seeded:
        raise ConfigurationError(
            f"n_estimators={n_estimators} must be larger or equal to the "
            f"{model.origin.n_trees_seeded} trees of earlier fits when warm_start=True. {_ANEW}"
        )
    return model.origin


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


def check_label_party(model: VerticalModel, label_party: str) -> None:
    """Labels stay where they were."""
    if label_party != model.label_party:
        raise ConfigurationError(
            f"label_party is {label_party!r}, but earlier fits had {model.label_party!r}; a warm "
            f"start goes on with the same parties. {_ANEW}"
        )


def check_votes(model: VerticalModel, n_rows: int) -> None:
    """Out-of-bag votes of earlier trees are there, about as many rows."""
    record = model.shares[model.label_party].out_of_bag
    if record is None:
        raise ConfigurationError(
            "oob_score and early_stopping cannot begin in a warm start: nobody kept which rows "
            "the earlier trees left out (a pickled forest forgets it, too). Set one of them from "
            f"the first fit on. {_ANEW}"
        )
    if record.n_rows != n_rows:
        raise DataError(
            f"X has {n_rows} rows, but the out-of-bag votes of earlier fits are about "
            f"{record.n_rows}; a warm start with oob_score needs the same rows. {_ANEW}"
        )
