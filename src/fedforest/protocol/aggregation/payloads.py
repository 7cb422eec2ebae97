"""What may leave a party when a sum over parties is formed, one type for each protection.

`MAY_LEAVE` is part of the allow-list of `protocol/payloads.py`; the same test walks it. Only
`PlainSums` shows the coordinator what one party's labels add up to; everything else is noisy,
masked, one share of several, sealed for another party, or public.
"""

from typing import Annotated, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prime_field import PRIME
from fedforest.kernels.side_checks import lies_between
from fedforest.kernels.varints import MAX_VARINT_BYTES, read_varints, write_varints
from fedforest.masking.key_agreement import KEY_BYTES
from fedforest.protocol.asking import Payload, check
from fedforest.protocol.payloads import from_bytes, to_bytes

LARGEST_SUM = 2**60  # sums, and every party's part of them, stay below: all plugs can carry them
NONCE_BYTES = 32

StepNumber = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
Key = Annotated[memoryview, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Nonce = Annotated[memoryview, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class StepEcho(Payload, frozen=True):
    """Which of the coordinator's steps a reply answers, so that a late one is recognised."""

    number: StepNumber

    def check_is(self, step: int) -> None:
        check(self.number == step, f"a late reply: it answers step {self.number}, not {step}")


class PlainSums(Payload, frozen=True):
    """What a party's labels add up to, as it is."""

    data: memoryview

    @classmethod
    def of(cls, sums: NDArray[np.int64]) -> Self:
        out = np.empty(len(sums) * MAX_VARINT_BYTES, np.uint8)
        return cls(out[: write_varints(sums, out)].data)

    def read(self, length: int) -> NDArray[np.int64]:
        check(len(self.data) >= length, f"sums: {len(self.data)} bytes for {length} numbers")
        sums = np.empty(length, np.int64)
        data = np.frombuffer(self.data, np.uint8)
        check(bool(read_varints(data, sums)), f"sums are not {length} numbers")
        check(is_in_range(sums), "a sum is too large")
        return sums


class NoisySums(PlainSums, frozen=True):
    """The same after noise was added, or made of noisy labels."""


class MaskedSums(Payload, frozen=True):
    """Sums plus masks that nobody but their owners knows, modulo 2^64."""

    data: memoryview

    @classmethod
    def of(cls, masked: NDArray[np.uint64]) -> Self:
        return cls(to_bytes(masked, "<u8"))

    def read(self, length: int) -> NDArray[np.uint64]:
        return from_bytes(self.data, "<u8", length, "masked sums")


class SealedTotal(Payload, frozen=True):
    """The running total of a ring, encrypted for the next party: the coordinator cannot read it."""

    data: memoryview


class SealedShares(Payload, frozen=True):
    """One share of each of a party's sums, encrypted for the party that holds it."""

    data: memoryview


class OpenShares(Payload, frozen=True):
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
    """Who a party is to the others, and a number it used never before."""

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
    """Shares as they travel: numbers below the prime."""
    shares: NDArray[np.uint64] = from_bytes(memoryview(data), "<u8", length, "shares")
    check(bool((shares < PRIME).all()), "a share is not in the field")
    return shares


def is_in_range(sums: NDArray[np.int64], largest: int = LARGEST_SUM - 1) -> bool:
    """Whether no number is larger in magnitude; by default, than every plug can carry."""
    return bool(lies_between(sums, -largest, largest))
