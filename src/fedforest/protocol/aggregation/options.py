"""The user's options for the protection of sums over parties: `aggregation=Masked(k=3)`.

The objects hold settings and check them against the number of parties; the protocols are in the
modules of the same names.
"""

from dataclasses import dataclass

from fedforest.errors import ConfigurationError
from fedforest.limits import is_whole


@dataclass(frozen=True)
class Masked:
    """Masks that cancel in the sum: the coordinator sees the sum over parties and nothing else.

    Parameters
    ----------
    k : int, optional
        Number of peers with which each party has common masks in a sum. That many peers, together
        with the coordinator, can expose a party. The default is all other participants, at no cost
        in messages. All others are peers, too, in a sum of fewer than `k` others.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import HorizontalExtraTreesClassifier, Masked
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> owner = [f"hospital {row % 5}" for row in range(len(y))]
    >>> forest = HorizontalExtraTreesClassifier(n_estimators=5, max_depth=3, random_state=0)
    >>> plain = forest.fit(X, y, party=owner).predict_proba(X)
    >>> forest = forest.set_params(aggregation=Masked(k=3)).fit(X, y, party=owner)
    >>> bool((forest.predict_proba(X) == plain).all())
    True
    """

    k: int | None = None

    def check(self, n_parties: int) -> None:
        """Refuse settings that are impossible with `n_parties` parties."""
        require_two_parties("Masked", n_parties)
        if self.k is None:
            return
        if not is_whole(self.k) or not 1 <= self.k < n_parties:
            raise ConfigurationError(
                f"Masked(k={self.k!r}): k must be an integer from 1 to {n_parties - 1}, the number "
                "of other parties; None takes all of them, which protects best.",
                key=("aggregation", "k"),
            )


@dataclass(frozen=True)
class Ring:
    """A running total that goes from party to party: one colluding party exposes another.

    For comparison only. `Masked` protects better in fewer messages.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import HorizontalExtraTreesClassifier, Ring
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> owner = [f"hospital {row % 5}" for row in range(len(y))]
    >>> forest = HorizontalExtraTreesClassifier(n_estimators=5, max_depth=3, random_state=0)
    >>> plain = forest.fit(X, y, party=owner).predict_proba(X)
    >>> forest = forest.set_params(aggregation=Ring()).fit(X, y, party=owner)
    >>> bool((forest.predict_proba(X) == plain).all())
    True
    """

    def check(self, n_parties: int) -> None:
        """Refuse settings that are impossible with `n_parties` parties."""
        require_two_parties("Ring", n_parties)


@dataclass(frozen=True)
class Shamir:
    """Secret sharing: every party divides its sums among the others and the coordinator.

    Parameters
    ----------
    threshold : int
        How many holders of shares, the coordinator among them, must put them together to expose a
        party; as many are needed for the sum. From 2 to the number of parties plus one. Where fewer
        holders have shares of a sum, all of them are needed.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import HorizontalExtraTreesClassifier, Shamir
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> owner = [f"hospital {row % 5}" for row in range(len(y))]
    >>> forest = HorizontalExtraTreesClassifier(n_estimators=5, max_depth=3, random_state=0)
    >>> plain = forest.fit(X, y, party=owner).predict_proba(X)
    >>> forest = forest.set_params(aggregation=Shamir(threshold=3)).fit(X, y, party=owner)
    >>> bool((forest.predict_proba(X) == plain).all())
    True
    """

    threshold: int

    def check(self, n_parties: int) -> None:
        """Refuse settings that are impossible with `n_parties` parties."""
        require_two_parties("Shamir", n_parties)
        if not is_whole(self.threshold) or not 2 <= self.threshold <= n_parties + 1:
            raise ConfigurationError(
                f"Shamir(threshold={self.threshold!r}): the threshold must be an integer from 2 to "
                f"{n_parties + 1}, the number of parties and the coordinator.",
                key=("aggregation", "threshold"),
            )


def require_two_parties(option: str, n_parties: int) -> None:
    """Refuse to protect the sum over one party: it equals that party's own numbers."""
    if n_parties < 2:
        raise ConfigurationError(
            f"aggregation={option}: {n_parties} party has nobody to hide among; use at least two "
            "parties, or aggregation='plain'.",
            key="aggregation",
        )
