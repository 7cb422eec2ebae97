"""Encrypted labels: the same forest, and nobody but the label party learns of labels."""

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.estimators.vertical_samples import few_trees
from tests.protocol.vertical.cases import (
    LARGE,
    VerticalCase,
    forest_parameters,
    make_target,
    whole_file,
)
from tests.protocol.vertical.encrypted_trainings import train_encryptedly
from tests.strategies import SEEDS, numeric_columns

pytestmark = few_trees  # drawn cases grow one or a few


@st.composite
def numeric_cases(draw: st.DrawFn) -> VerticalCase:
    """Tables of numbers with gaps and ties, any task, one to four parties."""
    n_rows = draw(st.sampled_from([2, 9, 40, 130]), label="rows")
    columns = {f"c{k}": draw(numeric_columns(n_rows)) for k in range(draw(st.integers(1, 6)))}
    n_classes = draw(st.sampled_from([0, 2, 2, 3, 5, 9]), label="classes")
    rng = np.random.default_rng(draw(SEEDS, label="label seed"))
    target = make_target(list(columns.values()), n_classes, rng)
    if n_classes:
        target = np.unique(target, return_inverse=True)[1]
    parameters = draw(forest_parameters(is_regression=n_classes == 0))
    parameters["max_bins"] = draw(st.sampled_from([16, 5]), label="bins")
    if parameters["criterion"] == "poisson":
        target = np.maximum(target, 0.0)
        target[0] = 1.0
    n_cuts = draw(st.integers(0, 3), label="further parties")
    cuts = [draw(st.integers(0, len(columns))) for _ in range(n_cuts)]
    shares = tuple(last - first for first, last in pairwise([0, *sorted(cuts), len(columns)]))
    label_party = draw(st.integers(0, len(shares) - 1), label="label party")
    batch_bytes = draw(st.sampled_from([1, 30 * n_rows, LARGE]), label="batch bytes")
    seed = draw(st.integers(0, 2**63 - 1), label="seed")
    return VerticalCase(
        columns, target, None, parameters, shares, label_party, batch_bytes, seed=seed
    )


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(numeric_cases())
def test_the_encrypted_forest_is_the_encoded_one_to_the_byte(case: VerticalCase) -> None:
    encoded, encrypted = case.vertical(), train_encryptedly(case)
    assert encrypted.whole_file() == whole_file(encoded)
    if case.parameters.get("oob_score"):
        name = "oob_decision_function_" if not case.is_regression else "oob_prediction_"
        votes = getattr(encoded, name).reshape(len(case.y), -1)
        record = encrypted.label_party.model().out_of_bag
        assert record is not None
        assert record.means().tobytes() == votes.tobytes()
