"""Local differential privacy for class labels (Federated Extra-Trees, section 3.5, after RAPPOR).

A label becomes a Bloom filter of a few set bits; every bit is turned over once and for ever
(permanent response); every query is answered by turning bits over anew (instant response), and only
sums of those leave a party. `privacy.decoding` turns sums of bits back into counts of classes.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError, PrivacyError
from fedforest.kernels.noise.answers import answer_at_random
from fedforest.kernels.noise.chacha import KEY_BYTES, open_stream, read_key
from fedforest.kernels.noise.permanent_response import respond_permanently
from fedforest.limits import is_finite, is_whole
from fedforest.privacy.answer_laws import tabulate_answers
from fedforest.privacy.bloom_codes import MAX_BITS, choose_code, largest_distance, membership
from fedforest.privacy.noise_settings import NoiseSettings

LEAST_CONTRAST = 1e-4  # of P(1 | bit set) and P(1 | bit clear); below, answers are all noise
_KEEP_STEPS = 2**32  # as fine as responses are turned over
_MOST_EXPONENT = 50  # of epsilon by distance: beyond, every bit is kept but one in 2^32


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalDP(NoiseSettings):
    """Local differential privacy of labels: `privacy=LocalDP(epsilon=2.0)`.

    Each label becomes bits of a Bloom filter, which the party makes noisy before it counts them. No
    other role has to be trusted with labels. Columns, thresholds and branch sizes are not
    protected. Classification only.

    Parameters
    ----------
    epsilon : float, optional
        Epsilon of the whole training, and of all others that the party answers with the same
        noise: the most that all queries of all times can tell about a label, whatever the number of
        trees and levels. Give exactly one of epsilon and keep.
    keep : float, optional
        For experts: how likely a bit of the permanent response is the true one by intention;
        otherwise it is a fair coin. Epsilon is d ln((1 + keep) / (1 - keep)), d being the largest
        distance of two codes (2 for one hash); epsilon=2.0 is keep=0.46, keep=0.9 is epsilon=5.9.
    bits : int or None, default=None
        Length of the Bloom filter, at most 64. None chooses it: one bit per class for one hash.
    hashes : int, default=1
        Bits that each class sets. More of them make counts more certain for the same keep, and
        less for the same epsilon.
    p, q : float, default=0.9 and 0.1
        How likely a query is answered with one where the permanent bit is one, and where it is
        zero. p=1.0 and q=0.0 add no noise beyond the permanent response; epsilon is the same.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedforest import HorizontalExtraTreesClassifier, LocalDP
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> owner = ["north", "south"] * 284 + ["north"]
    >>> forest = HorizontalExtraTreesClassifier(
    ...     n_estimators=5, max_depth=3, privacy=LocalDP(epsilon=2.0), random_state=0
    ... )
    >>> round(forest.fit(X, y, party=owner).privacy_spent_["label_epsilon"], 6)
    2.0
    """

    epsilon: float | None = None
    keep: float | None = None
    bits: int | None = None
    hashes: int = 1
    p: float = 0.9
    q: float = 0.1

    def check(self, *, is_regression: bool = False) -> None:
        """Refuse settings that cannot be used, or that give no privacy or nothing but noise."""
        if is_regression:
            raise self._error(
                "local differential privacy encodes classes, so it works for classification only. "
                "For regression use GlobalDP with target_bounds"
            )
        self._check_one_of("epsilon", "keep", "the probability behind it")
        self._check_positive("epsilon")
        self._check_size()
        self._check_probabilities()

    def _check_size(self) -> None:
        if not is_whole(self.hashes) or self.hashes < 1:
            raise self._error("hashes must be a whole number of at least 1", "hashes")
        if self.bits is None:
            if self.hashes > MAX_BITS:
                reason = f"a code has at most {MAX_BITS} bits, so no more hashes"
                raise self._error(reason, "hashes")
            return
        if not is_whole(self.bits) or not self.hashes <= self.bits <= MAX_BITS:
            raise self._error(
                f"bits must be None or a whole number from hashes={self.hashes} to {MAX_BITS}",
                "bits",
            )

    def _check_probabilities(self) -> None:
        for name in ("keep", "p", "q"):
            value = getattr(self, name)
            if not is_finite(value) and not (name == "keep" and value is None):
                raise self._error(f"{name} must be a probability", name)
        if self.keep is not None and not 0.0 < self.keep < 1.0:
            raise self._error("keep must be above 0 (all noise) and below 1 (no privacy)", "keep")
        if not (0.0 <= self.q <= 1.0 and 0.0 <= self.p <= 1.0):
            raise self._error("p and q must be probabilities between 0 and 1")
        if not self.q < self.p:
            raise self._error(
                "p must be larger than q, or answers say nothing or the opposite", "p"
            )
        if self._keep_for(2 * self.hashes) * (self.p - self.q) < LEAST_CONTRAST:
            name = "keep" if self.epsilon is None else "epsilon"
            raise self._error(
                f"keep * (p - q) must be at least {LEAST_CONTRAST:g}, or answers are all noise; "
                f"allow a larger {name}"
            )

    def _keep_for(self, distance: int) -> float:
        """Return `keep`, or what gives epsilon for codes of this largest distance."""
        if self.epsilon is None:
            assert self.keep is not None
            return float(self.keep)
        return choose_keep(float(self.epsilon), distance)

    def resolve(self, n_classes: int, meaning: bytes = b"") -> "ResponseCode":
        """Return the code for this many classes.

        `meaning` says what the classes are, e.g. their names and order. Under another meaning
        responses are drawn anew: a number that names another class must not find old coins.
        """
        self.check()
        bits, words = choose_code(int(n_classes), int(self.hashes), self.bits)
        keep = self._keep_for(largest_distance(words))
        layers = (keep, float(self.p), float(self.q))
        return ResponseCode(words, int(bits), int(self.hashes), *layers, meaning)


def choose_keep(epsilon: float, distance: int) -> float:
    """Return the largest `keep` whose cap is at most epsilon, in steps of 2^-32.

    Decimal arithmetic is the same on every machine. All parties must find the same number, and the
    same one for ever: another would draw other permanent responses, with a cap of their own.
    """
    with localcontext(Context(prec=40)):
        exponent = min(Decimal(epsilon) / max(1, distance), Decimal(_MOST_EXPONENT))
        odds = exponent.exp()
        kept = (odds - 1) / (odds + 1)
    steps = min(int(kept * _KEEP_STEPS), _KEEP_STEPS - 1)
    while steps > 0 and cap_of(steps / _KEEP_STEPS, distance) > epsilon:  # by rounding
        steps -= 1
    return steps / _KEEP_STEPS


def cap_of(keep: float, distance: int) -> float:
    """Return the loss of all queries together at most: d ln((1 + keep) / (1 - keep))."""
    return distance * (math.log1p(keep) - math.log1p(-keep))


@dataclass(frozen=True)
class ResponseCode:
    """A `LocalDP` with the code words of the classes it is used for."""

    words: tuple[int, ...]  # one per class, each with `hashes` set bits; linearly independent
    bits: int
    hashes: int
    keep: float
    p: float
    q: float
    meaning: bytes = b""

    @property
    def n_classes(self) -> int:
        """Return the number of classes that have a word."""
        return len(self.words)

    @cached_property
    def distance(self) -> int:
        """In how many bits two code words differ at most: epsilons grow with it."""
        return largest_distance(self.words)

    @property
    def cap(self) -> float:
        """Epsilon of all queries of all times together, at most."""
        return cap_of(self.keep, self.distance)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """(bits, classes): 1.0 where the class has the bit set."""
        return membership(self.words, self.bits)

    @property
    def rate_if_set(self) -> float:
        """P1: how likely a query is answered with one for a bit set in the code word."""
        return ((1.0 + self.keep) * self.p + (1.0 - self.keep) * self.q) / 2.0

    @property
    def rate_if_clear(self) -> float:
        """P0: the same for a bit that is not set."""
        return ((1.0 - self.keep) * self.p + (1.0 + self.keep) * self.q) / 2.0

    @property
    def parameter_set(self) -> bytes:
        """Hash the parameters that permanent responses depend on; p and q are not among them."""
        numbers = f"{self.bits}/{self.hashes}/{self.keep.hex()}/{self.words}/".encode()
        return blake2b(numbers + self.meaning, digest_size=32, person=b"parameter set").digest()

    def memory(self, key: bytes) -> str:
        """A public name for the responses drawn under a key: the same name, the same coins."""
        read_key(key)  # refuses what is no key
        name = blake2b(self.parameter_set, digest_size=16, key=key, person=b"memory")
        return name.hexdigest()


def permanent_responses(
    code: ResponseCode, labels: NDArray[np.uint16], row_ids: NDArray[np.uint64], key: bytes
) -> NDArray[np.uint64]:
    """Return the permanent response of every row, bit k of it being bit k of the Bloom filter.

    A keyed function of (row, label, parameter set): the same input gives the same answer for ever,
    so asking again tells nothing new. Every table of every party needs a key of its own.
    """
    if len(labels) != len(row_ids):
        raise DataError(f"There are {len(labels)} labels for {len(row_ids)} rows.")
    if len(labels) == 0:
        return np.zeros(0, np.uint64)
    if int(labels.max()) >= code.n_classes or int(labels.min()) < 0:
        raise DataError(f"A label is not among the {code.n_classes} classes of the code.")
    ordered = np.sort(row_ids)
    if (ordered[1:] == ordered[:-1]).any():
        raise DataError("Two rows have the same id: they would share their noise. Number rows.")
    read_key(key)  # refuses what is no key
    secret = blake2b(code.parameter_set, digest_size=KEY_BYTES, key=key, person=b"permanent")
    turned = np.uint32(math.ceil(math.ldexp((1.0 - code.keep) / 2.0, 32)))  # up: never less noise
    words = np.array(code.words, np.uint64)
    responses = np.empty(len(labels), np.uint64)
    rows = np.ascontiguousarray(row_ids, np.uint64), np.ascontiguousarray(labels, np.uint16)
    respond_permanently(words, code.bits, turned, read_key(secret.digest()), *rows, responses)
    return responses


def respond_instantly(
    code: ResponseCode, sums: NDArray[np.int64], key: bytes, number: int = 0
) -> None:
    """Replace exact sums (queries, bits + 1) by noisy ones; the last of each, its rows, stays.

    `sums` say how many of a query's rows have each permanent bit set. A bit is answered by every
    row on its own, so its noisy sum is Bin(ones, p) + Bin(zeros, q), and is drawn as that. A key
    and number are used once; to answer again, send the same sums again.
    """
    if sums.ndim != 2 or sums.shape[1] != code.bits + 1 or sums.dtype != np.int64:
        raise PrivacyError(f"Expected integers for {code.bits} bits, and rows, of every query.")
    laws = tabulate_answers(code.p, code.q)
    if not answer_at_random(sums, laws, open_stream(key, number)):
        raise PrivacyError("A sum of bits is not between zero and the number of rows.")
