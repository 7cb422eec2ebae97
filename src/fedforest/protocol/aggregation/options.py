"""How the sum over parties is protected, as users choose it: `aggregation=Masked(k=3)`.

The objects hold settings and say whether they can be used with so many parties; what they set in
motion is in the modules of the same names.
"""

from dataclasses import dataclass
from numbers import Integral

from fedforest.errors import ConfigurationError


@dataclass(frozen=True)
class Masked:
    """Masks that cancel in the sum: the coordinator sees the sum over parties and nothing else.

    Parameters
    ----------
    k : int, optional
        With how many other parties each party shares masks in a sum. So many of them, together with
        the coordinator, can expose a party. By default all others that take part, which costs no
        further messages. Where fewer take part in a sum, it is all of those.

    Examples
    --------
    >>> from fedforest.protocol.aggregation.options import Masked
    >>> Masked(k=3).check(n_parties=5)
    """

    k: int | None = None

    def check(self, n_parties: int) -> None:
        """Refuse what cannot be done with so many parties."""
        require_two_parties("Masked", n_parties)
        if self.k is None:
            return
        if not is_integer(self.k) or not 1 <= self.k < n_parties:
            raise ConfigurationError(
                f"Masked(k={self.k!r}): k must be an integer from 1 to {n_parties - 1}, the number "
                "of other parties; None takes all of them, which protects best."
            )


@dataclass(frozen=True)
class Ring:
    """A running total that goes from party to party: exposed by one colluding party.

    It is here to be compared with. `Masked` protects better in fewer messages.

    Examples
    --------
    >>> from fedforest.protocol.aggregation.options import Ring
    >>> Ring().check(n_parties=5)
    """

    def check(self, n_parties: int) -> None:
        """Refuse what cannot be done with so many parties."""
        require_two_parties("Ring", n_parties)


@dataclass(frozen=True)
class Shamir:
    """Secret sharing: every party divides its sums among the others and the coordinator.

    Parameters
    ----------
    threshold : int
        How many holders of shares, the coordinator among them, must put them together to expose a
        party; as many are needed for the sum. From 2 to the number of parties plus one. Where fewer
        take part in a sum, all of its holders are needed.

    Examples
    --------
    >>> from fedforest.protocol.aggregation.options import Shamir
    >>> Shamir(threshold=3).check(n_parties=5)
    """

    threshold: int

    def check(self, n_parties: int) -> None:
        """Refuse what cannot be done with so many parties."""
        require_two_parties("Shamir", n_parties)
        if not is_integer(self.threshold) or not 2 <= self.threshold <= n_parties + 1:
            raise ConfigurationError(
                f"Shamir(threshold={self.threshold!r}): the threshold must be an integer from 2 to "
                f"{n_parties + 1}, the number of parties and the coordinator."
            )


def is_integer(value: object) -> bool:
    """Whether users passed a whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def require_two_parties(option: str, n_parties: int) -> None:
    """Refuse to protect the sum over one party: it is that party's own."""
    if n_parties < 2:
        raise ConfigurationError(
            f"aggregation={option}: {n_parties} party has nobody to hide among; use at least two "
            "parties, or aggregation='plain'."
        )
