"""Take a forest over rows to scikit-learn, and from there wherever scikit-learn's models go."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.inspection import permutation_importance

from fedforest import HorizontalExtraTreesClassifier


def main() -> None:
    """Print what the exported ensemble is, and that it predicts the same."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    owner = np.array(["garden", "meadow"])[np.arange(len(y)) % 2]
    forest = HorizontalExtraTreesClassifier(min_samples_leaf=5, random_state=0)
    forest.fit(X, y, party=owner)

    ensemble = forest.to_sklearn()
    same = (ensemble.predict(X) == forest.predict(X)).all()
    print(f"{type(ensemble).__module__}.{type(ensemble).__name__}, same predictions: {same}")
    worth = permutation_importance(ensemble, X, y, n_repeats=5, random_state=0)
    for name, importance in zip(X.columns, worth.importances_mean, strict=True):
        print(f"  {name:20} {importance:.3f}")


if __name__ == "__main__":
    main()
