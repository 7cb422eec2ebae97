"""Protect labels: by encryption or noise over columns, by differential privacy over rows."""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from fedforest import (
    Encrypted,
    GlobalDP,
    HorizontalExtraTreesClassifier,
    LocalDP,
    RandomizedResponse,
    VerticalForestClassifier,
)


def main() -> None:
    """Print the accuracy of every protection beside that of none."""
    X, y = make_classification(4000, 10, n_informative=5, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)

    print("columns at two parties, one has the labels")
    for labels in ("encoded", RandomizedResponse(epsilon=2.0), Encrypted()):
        over_columns = VerticalForestClassifier(
            n_estimators=10, max_depth=5, max_bins=32, parties=2, labels=labels, random_state=0
        ).fit(X, y)
        print(f"  {labels!s:35} {over_columns.score(X_test, y_test):.3f}")

    print("rows at three parties, each has its labels")
    owner = np.array(["a", "b", "c"])[np.arange(len(y)) % 3]
    for privacy in (None, LocalDP(epsilon=4.0), GlobalDP(epsilon=40.0)):
        over_rows = HorizontalExtraTreesClassifier(
            n_estimators=10, max_depth=5, privacy=privacy, random_state=0
        ).fit(X, y, party=owner)
        spent = over_rows.privacy_spent_["label_epsilon"]
        name = "none" if privacy is None else type(privacy).__name__
        print(f"  {name:10} epsilon {spent:<8.3g} {over_rows.score(X_test, y_test):.3f}")


if __name__ == "__main__":
    main()
