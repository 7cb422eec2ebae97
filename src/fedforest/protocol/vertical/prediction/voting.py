"""Votes where labels are encrypted: the label party alone knows what leaves say.

Who learns what. The coordinator routes rows and hears which leaf each reaches; it passes leaf
numbers to the label party, and votes back to who asked, who alone can open them. The label party
learns which leaf each row reaches. A coordinator that puts its own key in the place of the asker's
would read these votes, unless the asker signed the request and so its key: the label party then
seals for no other key (`runtime/party/askers/votes.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedforest.errors import ProtocolError
from fedforest.masking.key_agreement import IdentityKey, Randomness, derive_key, encode_number
from fedforest.masking.sealing import open_sealed, seal
from fedforest.protocol.asking import Conversation, Handler, Message, ask, check
from fedforest.protocol.payloads import SealedVotes, from_bytes, to_bytes
from fedforest.protocol.vertical.prediction.messages import RowsVoted, VoteByLeaves
from fedforest.tree.forest.forest import LEAF, Shape
from fedforest.tree.forest.votes import ForestVotes
from fedforest.tree.workers import ALONE, Workers

BLOCK_BYTES = 2**26  # of leaf numbers in one request
_VOTES = b"votes of rows"


class VoteOrder(NamedTuple):
    """Whom to ask for votes, and who may read them."""

    label_party: str
    key: bytes  # the asker's public key
    hard_votes: bool = False


def vote_by_leaves(
    shape: Shape, leaf_of: NDArray[np.int32], order: VoteOrder
) -> Conversation[list[SealedVotes]]:
    """Have the label party vote for rows whose leaves (trees, rows) are known, block by block."""
    n_trees, n_rows = leaf_of.shape
    size = max(1, BLOCK_BYTES // max(1, n_trees * np.dtype(_number_type(shape)).itemsize))
    votes = []
    for first in range(0, n_rows, size):
        last = min(n_rows, first + size)
        leaves = write_leaves(shape, leaf_of[:, first:last])
        request = VoteByLeaves(first, last, leaves, memoryview(order.key), order.hard_votes)
        voted = yield from ask({order.label_party: request})
        votes.append(voted[order.label_party].votes)
    return votes


def open_votes(
    key: IdentityKey, sealed: Sequence[SealedVotes], n_rows: int, n_outputs: int
) -> NDArray[np.float64]:
    """Open the votes of all rows, (rows, outputs), with the asker's key."""
    texts = [
        open_sealed(_key_of(key, bytes(votes.key), number), votes.data, b"")
        for number, votes in enumerate(sealed)
    ]
    whole = memoryview(b"".join(texts))
    votes = from_bytes(whole, "<f8", n_rows * n_outputs, "votes").reshape(n_rows, n_outputs)
    check(bool(np.isfinite(votes).all()), "a vote is not a number")
    return votes


@dataclass(slots=True)
class VotingParty:
    """A label party in a prediction: routes rows like every party, and votes by their leaves."""

    routing: Handler
    votes: ForestVotes | None  # None: this party does not know the leaves
    n_rows: int
    randomness: Randomness
    workers: Workers = ALONE
    _n_voted: int = field(default=0, init=False)  # rows, in the order of the table
    _n_replies: int = field(default=0, init=False)

    def handle(self, request: Message) -> Message:
        """Answer one request; a request out of place is refused and changes nothing."""
        if not isinstance(request, VoteByLeaves):
            return self.routing.handle(request)
        if self.votes is None:
            raise ProtocolError.stating("votes are asked of a party that does not know the leaves")
        return self._vote(request, self.votes)

    def _vote(self, request: VoteByLeaves, votes: ForestVotes) -> RowsVoted:
        first, last = request.first_row, request.last_row
        is_next = first == self._n_voted < last <= self.n_rows
        check(is_next, "rows are voted for out of turn, or once more")
        leaf_of = read_leaves(request.leaves, last - first, votes.outline.shape)
        means = votes.mean(leaf_of, self.workers, hard=request.hard_votes)
        own = IdentityKey.from_randomness(self.randomness)
        key = _key_of(own, bytes(request.key), self._n_replies)
        sealed = seal(key, to_bytes(means, "<f8"), b"")
        self._n_voted, self._n_replies = last, self._n_replies + 1
        return RowsVoted(SealedVotes(memoryview(own.public), memoryview(sealed)))


def write_leaves(shape: Shape, leaf_of: NDArray[np.int32]) -> memoryview:
    """Encode the leaves of rows, (trees, rows)."""
    return to_bytes(leaf_of, _number_type(shape))


def read_leaves(data: memoryview, n_rows: int, shape: Shape) -> NDArray[np.int32]:
    """Read the leaves of rows, (trees, rows); refuse those of nodes that are no leaves."""
    flat = from_bytes(data, _number_type(shape), shape.n_trees * n_rows, "leaves")
    leaf_of: NDArray[np.int32] = flat.reshape(shape.n_trees, n_rows).astype(np.int32)
    sizes = np.diff(shape.tree_start)[:, None]
    check(bool(((leaf_of >= 0) & (leaf_of < sizes)).all()), "a leaf is none of its tree")
    is_leaf = shape.left_child[shape.tree_start[:-1, None] + leaf_of] == LEAF
    check(bool(is_leaf.all()), "a row is said to reach a node that is no leaf")
    return leaf_of


def _key_of(own: IdentityKey, other: bytes, number: int) -> bytes:
    return derive_key(own.pair_secret(other), _VOTES, encode_number(number))


def _number_type(shape: Shape) -> DTypeLike:
    """Return the type of leaf numbers in messages."""
    most = int(np.diff(shape.tree_start).max(initial=0))
    return "<u2" if most <= 2**16 else "<i4"
