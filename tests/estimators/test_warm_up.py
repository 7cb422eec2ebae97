"""After a warm-up nobody waits for kernels."""

import numpy as np

from fedforest import HorizontalExtraTreesClassifier, Masked, VerticalForestClassifier
from fedforest.estimators.warm_up import compile_kernels
from fedforest.kernels.compilation import hear_of_compilation


def test_after_a_warm_up_usual_trainings_compile_nothing() -> None:
    trained: list[str] = []
    compile_kernels(trained.append)
    assert len(set(trained)) == len(trained) > 5
    X = np.random.default_rng(1).normal(size=(300, 5))
    y = np.where(X[:, 0] + X[:, 4] > 0.0, "yes", "no")
    compiled: list[int] = []
    with hear_of_compilation(lambda: compiled.append(1)):
        by_columns = VerticalForestClassifier(n_estimators=3, random_state=0)
        by_columns.fit({"bank": X[:, :2], "shop": X[:, 2:]}, y)
        by_columns.predict({"bank": X[:, :2], "shop": X[:, 2:]})
        VerticalForestClassifier.from_shares(by_columns.to_shares())
        by_rows = HorizontalExtraTreesClassifier(3, aggregation=Masked(), random_state=0)
        by_rows.fit(X, y, party=["bank", "shop", "clinic"] * 100).predict(X)
        HorizontalExtraTreesClassifier.from_bytes(by_rows.to_bytes())
    assert compiled == []
