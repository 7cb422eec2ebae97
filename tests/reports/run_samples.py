"""A finished run of two parties, as its coordinator describes it."""

from typing import Any

import msgspec
import numpy as np

from fedforest.runtime.messages.results import (
    RunDetails,
    RunState,
    Scores,
    ValidationReport,
    VerticalResult,
)
from tests.cli.test_run_page import LEAKAGE


def run(protocol: str = "vertical", **changes: Any) -> RunDetails:
    parameters = {"task": "classification", "n_estimators": 20, "max_depth": None}
    details = RunDetails(
        state=RunState(
            *("ab" * 16, "finished", "", "churn", "f/user/ann", protocol, 10.0, 75.0, 3, 2_000)
        ),
        order={
            "data": {"bank": "customers", "shop": "baskets"},
            "label": "left",
            "label_party": "bank",
            "parameters": parameters,
        },
        started=15.0,
        bytes_to={"bank": 500},
        bytes_from={"bank": 1_000},
        model="ab" * 16,
        n_rows=1_600,
        classes=["left", "stays"],
        validation=ValidationReport(
            federated=Scores(n_rows=20, values={"accuracy": 0.95}, confusion=[[9, 1], [0, 10]]),
            alone={"bank": Scores(n_rows=20, values={"accuracy": 0.7})},
        ),
        leakage=LEAKAGE,
    )
    return msgspec.structs.replace(details, **changes)


VERTICAL = VerticalResult(
    model="ab" * 16,
    n_trees=20,
    n_rows=1_600,
    columns_per_party={"bank": 2, "shop": 1},
    importances={"bank": np.array([0.5, 0.25]).tobytes(), "shop": None},
    classes=None,
    out_of_bag_curve=np.array([np.nan, 0.6, 0.8]).tobytes(),
)
