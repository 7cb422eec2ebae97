"""Read what a training cost and told: exchanges, bytes, the report of who learned what."""

import pandas as pd
from sklearn.datasets import load_iris

from fedforest import VerticalForestClassifier


def main() -> None:
    """Print the steps of a training, its traffic and its report."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    tables = {"field": X.iloc[:, :2], "herbarium": X.iloc[:, 2:]}
    forest = VerticalForestClassifier(n_estimators=20, min_samples_leaf=5, random_state=0)
    forest.fit(tables, y)
    steps = pd.DataFrame(forest.fit_log_).drop(columns="seconds")
    print(steps.to_string(index=False))
    print(f"{forest.n_exchanges_} exchanges; bytes from each party: {forest.bytes_sent_}")
    print(forest.leakage_)
    print(forest.privacy_spent_)


if __name__ == "__main__":
    main()
