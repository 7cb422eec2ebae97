"""Labels that parties add up without reading them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Encrypted:
    """Additively homomorphic encryption of labels: `labels=Encrypted()`.

    Only the label party sees labels, gains and what leaves say; the forest is the one that
    `labels="encoded"` grows. Needs the extra `encrypted`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fedforest import Encrypted, VerticalForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> options = {"n_estimators": 2, "max_depth": 2, "max_bins": 16, "random_state": 0}
    >>> sealed = VerticalForestClassifier(parties=2, labels=Encrypted(), **options).fit(X, y)
    >>> encoded = VerticalForestClassifier(parties=2, **options).fit(X, y)
    >>> bool((sealed.predict_proba(X) == encoded.predict_proba(X)).all())
    True
    """
