"""Parties that know some of the same people, in orders of their own: tables, orders, references."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.messages.orders import (
    AlignRows,
    OptionChoice,
    TrainHorizontal,
    TrainVertical,
    Validation,
)
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import FederationFolder, make_federation

PARTIES = ("bank", "shop", "clinic")
N_PEOPLE, N_COLUMNS = 400, 6
SHARE = 0.25


@cache
def people() -> tuple[NDArray[np.float32], NDArray[np.str_], NDArray[np.float64]]:
    """Columns, classes and targets; everybody's columns have a part in both."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_PEOPLE, N_COLUMNS)).astype(np.float32)
    score = X[:, 0] + X[:, 2] + X[:, 4] + 0.2 * rng.normal(size=N_PEOPLE)
    return X, np.where(score > 0, "yes", "no"), score.astype(np.float64)


@cache
def members(party: str) -> tuple[int, ...]:
    """Whom a party knows, in its order: three of four people."""
    rng = np.random.default_rng(PARTIES.index(party))
    return tuple(rng.permutation(N_PEOPLE)[: 3 * N_PEOPLE // 4].tolist())


def common_people() -> set[int]:
    return set.intersection(*(set(members(party)) for party in PARTIES))


def columns_of(party: str) -> range:
    place = PARTIES.index(party)
    return range(2 * place, 2 * place + 2)


def make_tables(parties: Sequence[str] = PARTIES) -> dict[str, dict[str, pyarrow.Table]]:
    """For each party the people it knows with its columns, and some rows with all columns.

    Labels are classes, or numbers in the data sets whose names say so.
    """
    X, labels, targets = people()
    tables = {}
    for number, party in enumerate(parties):
        known = np.array(members(party))
        own: dict[str, Any] = {"id": [f"person {person}" for person in known]}
        own |= {f"x{column}": X[known, column] for column in columns_of(party)}
        is_label_party = party == PARTIES[0]
        rows = np.arange(number, N_PEOPLE, len(parties))
        every = {f"x{column}": X[rows, column] for column in range(N_COLUMNS)}
        tables[party] = {
            "people": pyarrow.table(own | ({"label": labels[known]} if is_label_party else {})),
            "people_measured": pyarrow.table(
                own | ({"label": targets[known]} if is_label_party else {})
            ),
            "people_twice": pyarrow.table(own | {"id": ["person 1"] * len(known)}),
            "rows": pyarrow.table({**every, "label": labels[rows]}),
            "rows_measured": pyarrow.table({**every, "label": targets[rows]}),
        }
    return tables


def make_pattern(folder: Path) -> FederationFolder:
    return make_federation(folder, make_tables())


def align_order() -> AlignRows:
    return AlignRows(data=dict.fromkeys(PARTIES, "people"))


def vertical_order(**changes: Any) -> TrainVertical:
    settings: dict[str, Any] = {
        "data": dict.fromkeys(PARTIES, "people"),
        "label": "label",
        "label_party": PARTIES[0],
        "parameters": ForestParameters(n_estimators=6, max_depth=4),
        "seed": 3,
        "align": True,
        "validation": Validation(SHARE),
    }
    return TrainVertical(**{**settings, **changes})


def horizontal_order(**changes: Any) -> TrainHorizontal:
    settings: dict[str, Any] = {
        "data": dict.fromkeys(PARTIES, "rows"),
        "label": "label",
        "parameters": ForestParameters(n_estimators=4, max_depth=4, bootstrap=False),
        "seed": 3,
        "validation": Validation(SHARE),
        "alone": True,
    }
    return TrainHorizontal(**{**settings, **changes})


REGRESSION = ForestParameters(
    task="regression", criterion="squared_error", n_estimators=4, max_depth=4, bootstrap=False
)


def masked(**changes: Any) -> TrainHorizontal:
    return horizontal_order(aggregation=OptionChoice.of(Masked()), **changes)
