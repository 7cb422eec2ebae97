"""ristretto255 as libsodium has it, element by element, and what kernels read and write."""

from collections.abc import Iterable, Sequence

import numpy as np
import rbcl
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.points.curve import D_NUMBER, POINT_LIMBS
from fedforest.kernels.points.encoding import decode_points, encode_doubles
from fedforest.kernels.points.field import PRIME, to_limbs

ORDER = 2**252 + 27742317777372353535851937790883648493
NEUTRAL = bytes(32)
ROOT = pow(2, (PRIME - 1) // 4, PRIME)  # of -1

# neutral, the least, the greatest, any: pairs of these are often equal or opposite
SCALARS = st.one_of(st.sampled_from([0, 1, 2, ORDER - 1, ORDER - 2]), st.integers(0, ORDER - 1))

# RFC 9496, appendix A.2 and A.3: all of these must be refused
BAD_ENCODINGS = [
    # not the one form below p
    "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    # negative
    "0100000000000000000000000000000000000000000000000000000000000000",
    "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
    "c34c4e1826e5d403b78e246e88aa051c36ccf0aafebffe137d148a2bf9104562",
    "c940e5a4404157cfb1628b108db051a8d439e1a421394ec4ebccb9ec92a8ac78",
    "47cfc5497c53dc8e61c91d17fd626ffb1c49e2bca94eed052281b510b1117a24",
    "f1c6165d33367351b0da8f6e4511010c68174a03b6581212c71c0e1d026c3c72",
    "87260f7a2f12495118360f02c26a470f450dadf34a413d21042b43b9d93e1309",
    # no square
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
    "4eac077a713c57b4f4397629a4145982c661f48044dd3f96427d40b147d9742f",
    "de6a7b00deadc788eb6b6c8d20c0ae96c2f2019078fa604fee5b87d6e989ad7b",
    "bcab477be20861e01e4a0e295284146a510150d9817763caf1a6f4b422d67042",
    "2a292df7e32cababbd9de088d1d1abec9fc0440f637ed2fba145094dc14bea08",
    "f4a9e534fc0d216c44b218fa0c42d99635a0127ee2e53c712f70609649fdff22",
    "8268436f8c4126196cf64b3c7ddbda90746a378625f9813dd9b8457077256731",
    "2810e5cbc2cc4d4eece54f61c6f69758e289aa7ab440b3cbeaa21995c2f4232b",
    # x y is negative
    "3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e",
    "a45fdc55c76448c049a1ab33f17023edfb2be3581e9c7aade8a6125215e04220",
    "d483fe813c6ba647ebbfd3ec41adca1c6130c2beeee9d9bf065c8d151c5f396e",
    "8a2e1d30050198c65a54483123960ccc38aef6848e1ec8f5f780e8523769ba32",
    "32888462f8b486c68ad7dd9610be5192bbeaf3b443951ac1a8118419d9fa097b",
    "227142501b9d4355ccba290404bde41575b037693cef1f438c47f8fbf35d1165",
    "5c37cc491da847cfeb9281d407efc41e15144c876e0170b499a96a22ed31e01e",
    "445425117cb8c90edcbc7c1cc0e74f747f2c1efa5630a967c64f287792a48a4b",
    # y is zero
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


def element(scalar: int) -> bytes:
    """A multiple of the base point."""
    reduced = int(scalar) % ORDER
    if reduced == 0:
        return NEUTRAL
    point: bytes = rbcl.crypto_scalarmult_ristretto255_base(reduced.to_bytes(32, "little"))
    return point


def to_words(encoded: Sequence[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(encoded), "<u8").astype(np.uint64).reshape(-1, 4)


def to_points(encoded: Sequence[bytes]) -> NDArray[np.uint64]:
    words = to_words(encoded)
    points = np.empty((len(words), POINT_LIMBS), np.uint64)
    assert decode_points(words, points) == -1
    return points


def encode_twice(points: NDArray[np.uint64]) -> list[bytes]:
    """What encodes the double of each point."""
    words = np.zeros((len(points), 4), np.uint64)
    encode_doubles(points, words)
    return [row.astype("<u8").tobytes() for row in words]


def to_number(limbs: Iterable[np.uint64]) -> int:
    return sum(int(limb) << (51 * k) for k, limb in enumerate(limbs)) % PRIME


def turn(points: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """The same elements as other points: a point of order four is added `factor` times."""
    turned = points.copy()
    for point in turned:
        x, y, z, _ = (to_number(point[at : at + 5]) for at in range(0, POINT_LIMBS, 5))
        for _ in range(factor):
            x, y = y * ROOT % PRIME, x * ROOT % PRIME
        both = x * y * pow(z, -1, PRIME)
        point[:] = [limb for number in (x, y, z, both) for limb in to_limbs(number)]
    return turned


def on_curve(point: NDArray[np.uint64]) -> bool:
    """Whether the four coordinates are those of a point of the curve."""
    x, y, z, t = (to_number(point[at : at + 5]) for at in range(0, POINT_LIMBS, 5))
    equation = (y * y - x * x) * z * z - z**4 - D_NUMBER * x * x * y * y
    return z != 0 and equation % PRIME == 0 and (x * y - z * t) % PRIME == 0
