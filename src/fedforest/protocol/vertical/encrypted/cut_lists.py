"""Cuts on their way from a party to the label party: ciphertexts of sums, and sealed counts.

Cuts are listed node by node. Of a column of categories each category is listed, one after the
other: only the label party can say in which order they are to be cut. How many counts a plaintext
holds follows from the draws of the node, which both sides know: the cuts of nodes of about as many
draws are encrypted together.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import ConfigurationError, MaskingError, ProtocolError
from fedforest.masking.homomorphic.decryption import Decryptor
from fedforest.masking.homomorphic.group import POINT_BYTES
from fedforest.masking.homomorphic.scheme import Rows, Scheme, Sums
from fedforest.masking.homomorphic.summands import Summands
from fedforest.masking.key_agreement import derive_key, encode_number
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import NodeSums
from fedforest.protocol.vertical.encrypted.payloads import EncryptedCuts
from fedforest.tree.workers import Workers

Seal = Callable[[bytes, bytes], memoryview]  # (text, what it holds for) to the label party
Unseal = Callable[[memoryview, bytes], bytes]

A_CUT, A_COLUMN, A_CATEGORY = 0, 1, 2  # what is listed
CUTS_AT_ONCE = 1024  # of one call to re-randomise or decrypt; the ciphertexts do not depend on it
_CUTS = b"encrypted cuts"


@contextmanager
def refuse_spoiled() -> Iterator[None]:
    """Refuse keys and ciphertexts from a peer as what they are, messages that break a rule."""
    try:
        yield
    except (MaskingError, ConfigurationError) as error:
        raise ProtocolError.of("run.unusable", detail=error) from None


class CutCounts(NamedTuple):
    """What a party tells of its cuts beside encrypted sums."""

    n_cuts: NDArray[np.int64]  # of each open node
    rows: NDArray[np.int64]  # left of each cut, or of a category
    draws: NDArray[np.int64]  # of the same: rows as often as they were drawn
    kind: NDArray[np.int64]  # A_CUT, or A_COLUMN for the first category of a column, or A_CATEGORY

    @property
    def node(self) -> NDArray[np.int64]:
        """Return the node of each cut."""
        return np.repeat(np.arange(len(self.n_cuts)), self.n_cuts)


class CutCipher(NamedTuple):
    """What a party has of the label party: ciphertexts of all rows, and a secret with it."""

    scheme: Scheme
    rows: Rows
    seal: Seal
    workers: Workers

    def encrypt(
        self, counts: CutCounts, sums: Sums, node_draws: NDArray[np.int64], secret: bytes
    ) -> EncryptedCuts:
        """`secret` are 32 bytes for this call only."""
        pieces = list(_pieces(node_draws[counts.node], self.scheme.summands.most_rows))
        encoded: dict[int, bytes] = {}

        def work(number: int) -> None:
            cuts, most = pieces[number]
            key = derive_key(secret, _CUTS, encode_number(number))
            encoded[number] = self.scheme.rerandomise(sums[cuts], most, key).tobytes()

        self.workers.run(work, range(len(pieces)))
        data = b"".join(encoded[number] for number in range(len(pieces)))
        text = bytes(NodeSums.of(np.concatenate(counts)).data)
        return EncryptedCuts(self.seal(text, digest(data)), memoryview(data))


class CutReader(NamedTuple):
    """The label party's keys."""

    summands: Summands
    decryptor: Decryptor
    workers: Workers

    def open(
        self, cuts: EncryptedCuts, node_draws: NDArray[np.int64], unseal: Unseal
    ) -> tuple[CutCounts, NDArray[np.int64]]:
        """Read counts and sums (cuts, n_numbers); a spoiled one is a `MaskingError`."""
        text = unseal(cuts.counts, digest(cuts.sums))
        counts = _read_counts(np.frombuffer(text, np.uint8), len(node_draws))
        pieces = list(_pieces(node_draws[counts.node], self.summands.most_rows))
        points = np.frombuffer(cuts.sums, np.uint8)
        sizes = [len(piece) * self._n_bytes(most) for piece, most in pieces]
        check(sum(sizes) == len(points), "encrypted sums are not as many as the cuts")
        parts = np.split(points, np.cumsum(sizes)[:-1]) if sizes else []
        numbers = np.empty((len(counts.rows), self.summands.n_numbers), np.int64)

        def work(at: int) -> None:
            piece, most = pieces[at]
            encoded = parts[at].reshape(len(piece), -1, POINT_BYTES)
            numbers[piece] = self.decryptor.decrypt(encoded, counts.draws[piece], most)

        self.workers.run(work, range(len(pieces)))
        return counts, numbers

    def _n_bytes(self, most_rows: int) -> int:
        groups = self.summands.packing(most_rows).group(self.summands.n_keys)
        return (1 + len(groups)) * POINT_BYTES


def _pieces(draws: NDArray[np.int64], most_rows: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """List cuts that are encrypted together, with the most draws of one node of them."""
    n_bits = np.frexp(draws.astype(np.float64))[1]
    for bits in np.unique(n_bits).tolist():
        cuts = np.flatnonzero(n_bits == bits)
        for first in range(0, len(cuts), CUTS_AT_ONCE):
            yield cuts[first : first + CUTS_AT_ONCE], min(most_rows, 2**bits - 1)


def _read_counts(data: NDArray[np.uint8], n_nodes: int) -> CutCounts:
    n_numbers = int((data < 0x80).sum())  # the last byte of each number
    flat = NodeSums(data.data).read(n_numbers, 1)[:, 0]
    check(n_numbers >= n_nodes, "counts of cuts are missing")
    n_cuts, of_cuts = flat[:n_nodes], flat[n_nodes:]
    is_known = bool((n_cuts >= 0).all() and (n_cuts <= len(of_cuts)).all())
    check(
        is_known and 3 * int(n_cuts.sum()) == len(of_cuts), "cuts are not as many as their counts"
    )
    counts = CutCounts(n_cuts, *of_cuts.reshape(3, -1))
    begins = np.zeros(len(counts.kind), np.bool_)
    begins[(np.cumsum(n_cuts) - n_cuts)[n_cuts > 0]] = True
    goes_on = counts.kind == A_CATEGORY
    follows = np.concatenate([[False], counts.kind[:-1] != A_CUT]) & ~begins
    is_kind = np.isin(counts.kind, (A_CUT, A_COLUMN, A_CATEGORY))
    check(bool(is_kind.all() and follows[goes_on].all()), "categories are of no column")
    return counts


def digest(*parts: bytes | memoryview) -> bytes:
    """Digest some contents, each with its length."""
    whole = blake2b(digest_size=32)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()
