"""Linear models keep scikit-learn's contract."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from fedforest.estimators.linear.regressions import (
    VerticalLinearRegression,
    VerticalLogisticRegression,
)


@parametrize_with_checks([VerticalLogisticRegression(), VerticalLinearRegression()])  # type: ignore[untyped-decorator] # scikit-learn ships no types
def test_linear_models_keep_the_contract_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
