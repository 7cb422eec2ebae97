"""Train one forest over the columns of a clinic and a laboratory, beside each of them alone."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fedforest import VerticalForestClassifier


def main() -> None:
    """Print the accuracy of each party alone, of both, and of the joined table."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    columns = {"clinic": list(X.columns[:15]), "laboratory": list(X.columns[15:])}

    def accuracy(*parties: str) -> float:
        forest = VerticalForestClassifier(n_estimators=100, random_state=0)
        forest.fit({party: X_train[columns[party]] for party in parties}, y_train)
        return float(forest.score({party: X_test[columns[party]] for party in parties}, y_test))

    pooled = VerticalForestClassifier(n_estimators=100, random_state=0).fit(X_train, y_train)
    print(f"clinic alone      {accuracy('clinic'):.3f}")
    print(f"laboratory alone  {accuracy('laboratory'):.3f}")
    print(f"both              {accuracy('clinic', 'laboratory'):.3f}")
    print(f"joined table      {pooled.score(X_test, y_test):.3f}")


if __name__ == "__main__":
    main()
