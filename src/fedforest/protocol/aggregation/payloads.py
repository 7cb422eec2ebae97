"""The types that may leave a party when a sum over parties is formed, one for each protection.

`MAY_LEAVE` is part of the allow-list of `protocol/payloads.py`; the same test walks it. Only
`PlainSums` shows the coordinator exact sums of one party's labels; everything else is noisy,
masked, one share of several, sealed for another party, or public.
"""

from typing import Annotated, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.varints import MAX_VARINT_BYTES, read_varints, write_varints
from fedforest.kernels.sums.checks import lies_between
from fedforest.kernels.sums.prime_field import PRIME
from fedforest.masking.key_agreement import KEY_BYTES
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.label_door import LabelStatistic
from fedforest.protocol.payloads import from_bytes, to_bytes

LARGEST_SUM = 2**60  # sums and every party's summand stay below: all plugs can carry them
NONCE_BYTES = 32

StepNumber = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Key = Annotated[memoryview, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Nonce = Annotated[memoryview, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class StepEcho(Payload, frozen=True):
    """The number of the step that a reply answers, so that a late reply is recognised."""

    number: StepNumber

    def check_is(self, step: int) -> None:
        check(
            self.number == step,
            "a late reply: it answers step {number}, not {step}",
            number=self.number,
            step=step,
        )


class PlainSums(LabelStatistic, frozen=True):
    """Exact sums of a party's labels."""

    data: memoryview

    @classmethod
    def of(cls, sums: NDArray[np.int64]) -> Self:
        out = np.empty(len(sums) * MAX_VARINT_BYTES, np.uint8)
        return cls(out[: write_varints(sums, out)].data)

    def read(self, length: int) -> NDArray[np.int64]:
        check(
            len(self.data) >= length,
            "sums: {n_bytes} bytes for {length} numbers",
            n_bytes=len(self.data),
            length=length,
        )
        sums = np.empty(length, np.int64)
        data = np.frombuffer(self.data, np.uint8)
        check(bool(read_varints(data, sums)), "sums are not {length} numbers", length=length)
        check(is_in_range(sums), "a sum is too large")
        return sums


class NoisySums(PlainSums, frozen=True):
    """Sums with noise added, or of noisy labels."""


class MaskedSums(LabelStatistic, frozen=True):
    """Sums plus masks modulo 2^64; only the two parties of a mask know it."""

    data: memoryview

    @classmethod
    def of(cls, masked: NDArray[np.uint64]) -> Self:
        return cls(to_bytes(masked, "<u8"))

    def read(self, length: int) -> NDArray[np.uint64]:
        return from_bytes(self.data, "<u8", length, "masked sums")


class SealedTotal(LabelStatistic, frozen=True):
    """The running total of a ring, encrypted for the next party: the coordinator cannot read it."""

    data: memoryview


class SealedShares(LabelStatistic, frozen=True):
    """One share of each of a party's sums, encrypted for the party that holds it."""

    data: memoryview


class OpenShares(LabelStatistic, frozen=True):
    """The share of each of a party's sums that the coordinator holds; alone it tells nothing."""

    data: memoryview

    @classmethod
    def of(cls, shares: NDArray[np.uint64]) -> Self:
        return cls(to_bytes(shares, "<u8"))

    def read(self, length: int) -> NDArray[np.uint64]:
        return read_shares(self.data, length)


class ShareSum(OpenShares, frozen=True):
    """The sum of the shares that a party holds: one share of the sum over parties."""


class PublicKey(Payload, frozen=True):
    """A party's public key, and a nonce it never used before."""

    key: Key
    nonce: Nonce


class SealedSeed(Payload, frozen=True):
    """The seed by which a party chooses its peers, encrypted for one other party."""

    data: memoryview


MAY_LEAVE = (
    StepEcho,
    PlainSums,
    NoisySums,
    MaskedSums,
    SealedTotal,
    SealedShares,
    OpenShares,
    ShareSum,
    PublicKey,
    SealedSeed,
)


def read_shares(data: memoryview | bytes, length: int) -> NDArray[np.uint64]:
    """Read shares from bytes; refuse numbers that are not below the prime."""
    shares: NDArray[np.uint64] = from_bytes(memoryview(data), "<u8", length, "shares")
    check(bool((shares < PRIME).all()), "a share is not in the field")
    return shares


def is_in_range(sums: NDArray[np.int64], largest: int = LARGEST_SUM - 1) -> bool:
    """Return whether no magnitude is above `largest`, by default the most every plug can carry."""
    return bool(lies_between(sums, -largest, largest))
