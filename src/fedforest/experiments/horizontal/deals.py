"""How rows are dealt to parties: every repetition holds rows out and deals the others anew.

By the seed and the number of the repetition alone; all methods get the same rows, owners and seed.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.experiments.data.reading import PaperTable


@dataclass(frozen=True, slots=True)
class Dealing:
    """Among how many parties rows are dealt, and which fraction of them is held out."""

    n_parties: int
    test_fraction: float


TWO_PARTIES = Dealing(2, 0.2)  # sections 4.1 and 4.2 of Federated Extra-Trees
NINE_FOLDS = Dealing(9, 0.2)  # its section 4.3
TEN_PARTIES = Dealing(10, 1 / 3)  # section 4 of k-PPD-ERT


class Deal(NamedTuple):
    """One repetition; `owner` is who holds each row of `train`."""

    data: PaperTable
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    owner: NDArray[np.int64]
    seed: int

    def keep(self, n_parties: int) -> "Deal":
        """Return the deal with the rows of the first parties only."""
        is_kept = self.owner < n_parties
        return self._replace(train=self.train[is_kept], owner=self.owner[is_kept])

    def among(self, n_parties: int) -> "Deal":
        """Return the same rows, dealt among this many parties."""
        return self._replace(owner=_own_equally(len(self.train), n_parties))


def deal_rows(data: PaperTable, dealing: Dealing, seed: int, repetition: int) -> Deal:
    """Hold rows out and deal the others in equal portions."""
    rng = np.random.default_rng((seed, repetition))
    order = rng.permutation(len(data.y))
    n_test = round(dealing.test_fraction * len(order))
    test, train = order[:n_test], order[n_test:]
    owner = _own_equally(len(train), dealing.n_parties)
    return Deal(data, train, test, owner, int(rng.integers(2**31)))


def _own_equally(n_rows: int, n_parties: int) -> NDArray[np.int64]:
    return np.arange(n_rows) * n_parties // n_rows


def codes_of(deal: Deal, rows: NDArray[np.int64]) -> Any:
    """Return rows as scikit-learn's trees read them."""
    return deal.data.codes[rows].astype(np.float32, copy=False)
