"""k-ary randomized response: a label is kept with a known probability, else replaced at random.

One release of a noisy label is epsilon-differentially private for that label, and so is everything
computed from it afterwards. Arithmetic only; randomness is an argument.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError
from fedforest.limits import is_finite

LEAST_EPSILON = 1e-6  # below, shares of true classes drown in the rounding of noisy ones
Randomness = Callable[[int], bytes]  # secure random bytes, as many as asked for


@dataclass(frozen=True)
class RandomizedResponse:
    """Label differential privacy: `labels=RandomizedResponse(epsilon=2.0)`.

    Parameters
    ----------
    epsilon : float
        The most that a noisy label may tell: any observation is at most exp(epsilon) times as
        likely under one class as under another. Smaller is more private and less accurate.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import RandomizedResponse, VerticalForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = VerticalForestClassifier(parties=2, labels=RandomizedResponse(epsilon=2.0))
    >>> forest.fit(X, y).privacy_spent_["label_epsilon"]
    2.0
    """

    epsilon: float

    @property
    def is_usable(self) -> bool:
        """Whether epsilon is a number, and neither no privacy nor nothing but noise."""
        value: object = self.epsilon  # users pass what they like
        return is_finite(value) and value >= LEAST_EPSILON

    def check(self) -> None:
        """Refuse an epsilon that cannot be used."""
        if not self.is_usable:
            raise ConfigurationError(
                f"RandomizedResponse(epsilon={self.epsilon!r}): epsilon must be a positive number "
                f"of at least {LEAST_EPSILON:g}; 2.0 is a common choice.",
                key=("labels", "epsilon"),
            )

    def keep_probability(self, n_classes: int) -> float:
        """Return the probability that a label stays as it is."""
        if n_classes < 2:
            return 1.0
        return 1.0 / (1.0 + (n_classes - 1) * math.exp(-self.epsilon))

    def draw(
        self, codes: NDArray[np.integer], n_classes: int, randomness: Randomness
    ) -> NDArray[np.uint16]:
        """Noisy codes; call once per label and keep the result, or noise averages out."""
        exact = codes.astype(np.int64)
        if n_classes < 2:
            return exact.astype(np.uint16)
        words = np.frombuffer(randomness(16 * len(exact)), np.uint64).reshape(2, -1)
        threshold = np.uint64(min(math.ldexp(self.keep_probability(n_classes), 64), 2.0**64 - 2048))
        # one of the other classes, each as likely to within 2^-54
        step = 1 + (words[1] % np.uint64(n_classes - 1)).astype(np.int64)
        noisy = np.where(words[0] < threshold, exact, (exact + step) % n_classes)
        return noisy.astype(np.uint16)

    def debias(self, shares: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
        """Unbiased shares of true classes from shares of noisy ones (they may be negative)."""
        if n_classes < 2:
            return shares
        keep = self.keep_probability(n_classes)
        other = keep * math.exp(-self.epsilon)
        return (shares - other) / (keep * -math.expm1(-self.epsilon))  # keep - other, exactly
