"""Choose parameters by cross-validation on a divided table, with scikit-learn's own tools."""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV

from fedforest import VerticalForestRegressor


def main() -> None:
    """Print the best parameters, and what a run file says for them."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = VerticalForestRegressor(n_estimators=50, parties=2, random_state=0)
    grid = {"max_depth": [4, 8], "min_samples_leaf": [5, 10, 20]}
    search = GridSearchCV(forest, grid, cv=3).fit(X, y)
    print(f"R2 {search.best_score_:.3f} with")
    print("[parameters]")
    for name, value in {"n_estimators": 50, **search.best_params_}.items():
        print(f"{name} = {value}")


if __name__ == "__main__":
    main()
