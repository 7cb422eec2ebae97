"""Train one forest over the rows of three hospitals, and hand every hospital the model."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fedforest import HorizontalExtraTreesClassifier, Masked


def main() -> None:
    """Print the accuracy of each hospital alone and of all, and the size of the model."""
    X, y = load_breast_cancer(return_X_y=True)
    owner = np.random.default_rng(0).choice(["north", "south", "west"], len(y), p=[0.6, 0.3, 0.1])
    X, X_test, y, y_test, owner, _ = train_test_split(X, y, owner, test_size=0.4, random_state=0)

    for name in ("north", "south", "west"):
        alone = HorizontalExtraTreesClassifier(min_samples_leaf=3, random_state=0)
        alone.fit(X[owner == name], y[owner == name])
        print(f"{name:6} alone {alone.score(X_test, y_test):.3f}, {sum(owner == name)} patients")

    forest = HorizontalExtraTreesClassifier(
        min_samples_leaf=3, aggregation=Masked(), random_state=0
    )
    forest.fit(X, y, party=owner)
    print(f"together     {forest.score(X_test, y_test):.3f}, sums masked")

    file = forest.to_bytes()  # every hospital keeps this and predicts offline
    again = HorizontalExtraTreesClassifier.from_bytes(file)
    print(
        f"model: {len(file):,} bytes, the same predictions: "
        f"{(again.predict(X_test) == forest.predict(X_test)).all()}"
    )


if __name__ == "__main__":
    main()
