"""A party's statistics for a question, with the noise that the run demands.

Where noise is demanded, exact sums of labels do not leave this module. Noise is drawn under a key
that is derived anew for every question from a secret of the party.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import Cuts
from fedforest.masking.key_agreement import derive_key
from fedforest.privacy.global_dp import TargetGrid, add_noise
from fedforest.privacy.local_dp import (
    LocalDP,
    ResponseCode,
    permanent_responses,
    respond_instantly,
)
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.tree.growth.point_search import PointSearch
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import ALONE, Workers

QUERIES_OF_A_BLOCK = 2**14  # answered from one keystream
SHORT_CODE = 8  # bits
LABEL_MOVES = 2  # counts that change by one when a row's label does

RowKeys = Callable[[], NDArray[np.uint64]]  # one for each row, the same in all runs


class Statistics(Protocol):
    """Counts for one question; `key` is used for no other."""

    def of_cuts(self, search: PointSearch, cuts: Cuts, key: bytes) -> NDArray[np.int64]:
        """Count (asked cuts, integers): the left side, or both."""

    def of_nodes(
        self, search: PointSearch, nodes: NDArray[np.int64], key: bytes
    ) -> NDArray[np.int64]:
        """Count whole nodes: (nodes, integers)."""

    def of_question(
        self, search: PointSearch, cuts: Cuts, nodes: NDArray[np.int64], key: bytes
    ) -> NDArray[np.int64]:
        """Count cuts and whole nodes, concatenated."""

    def of_table(self, key: bytes) -> NDArray[np.int64]:
        """Count all rows together."""


class _NoisyStatistics:
    """Base of noisy statistics: cuts and nodes have separate noise, so are counted apart."""

    def of_question(
        self: Statistics, search: PointSearch, cuts: Cuts, nodes: NDArray[np.int64], key: bytes
    ) -> NDArray[np.int64]:
        counted = self.of_cuts(search, cuts, key).reshape(-1)
        if len(nodes) == 0:
            return counted
        return np.concatenate([counted, self.of_nodes(search, nodes, key).reshape(-1)])


@dataclass(frozen=True, slots=True, eq=False)
class ExactStatistics:
    """Exact sums; only the aggregation protects them."""

    targets: TrainingTargets
    rows_apart: bool
    both_sides: bool

    def of_cuts(self, search: PointSearch, cuts: Cuts, key: bytes) -> NDArray[np.int64]:  # noqa: ARG002
        return search.count(cuts, both_sides=self.both_sides)

    def of_nodes(
        self,
        search: PointSearch,
        nodes: NDArray[np.int64],
        key: bytes,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        return _node_sums(search, nodes)

    def of_question(
        self,
        search: PointSearch,
        cuts: Cuts,
        nodes: NDArray[np.int64],
        key: bytes,  # noqa: ARG002
    ) -> NDArray[np.int64]:
        return search.count_with_nodes(cuts, nodes, both_sides=self.both_sides)

    def of_table(self, key: bytes) -> NDArray[np.int64]:  # noqa: ARG002
        return _count_classes(self.targets, rows_apart=self.rows_apart)


@dataclass(frozen=True, slots=True, eq=False)
class LocalStatistics(_NoisyStatistics):
    """Sums of noisy bits: permanent noise for each row, and new noise for each question."""

    code: ResponseCode
    responses: NDArray[np.unsignedinteger]  # permanent, one per row

    def of_cuts(self, search: PointSearch, cuts: Cuts, key: bytes) -> NDArray[np.int64]:
        sums = search.count_bits(cuts, self.responses, self.code.bits)
        self._answer(sums.reshape(-1, self.code.bits + 1), key, search.workers)
        return sums

    def of_nodes(
        self, search: PointSearch, nodes: NDArray[np.int64], key: bytes
    ) -> NDArray[np.int64]:
        rows = [self._sum(self.responses[search.rows_of(int(node))]) for node in nodes]
        sums = np.array(rows, np.int64).reshape(len(nodes), self.code.bits + 1)
        self._answer(sums, derive_key(key, b"whole nodes"))
        return sums

    def of_table(self, key: bytes) -> NDArray[np.int64]:
        sums = self._sum(self.responses)
        self._answer(sums.reshape(1, -1), key)
        return sums

    def _sum(self, responses: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        """Count how often each bit is set, then the rows."""
        places = np.arange(self.code.bits, dtype=np.uint64)
        bits = (responses.astype(np.uint64)[:, None] >> places) & np.uint64(1)
        return np.append(bits.sum(axis=0, dtype=np.int64), len(responses))

    def _answer(self, sums: NDArray[np.int64], key: bytes, workers: Workers = ALONE) -> None:
        """Make sums noisy, block by block: the noise does not depend on the thread."""

        def answer(block: int) -> None:
            own = sums[block * QUERIES_OF_A_BLOCK : (block + 1) * QUERIES_OF_A_BLOCK]
            respond_instantly(self.code, own, key, block)

        workers.run(answer, range(-(-len(sums) // QUERIES_OF_A_BLOCK)))


@dataclass(frozen=True, slots=True, eq=False)
class GlobalStatistics(_NoisyStatistics):
    """Sums with discrete Laplace noise; rows, which no label changes, are exact."""

    targets: TrainingTargets
    epsilon: float
    sensitivity: int

    def of_cuts(self, search: PointSearch, cuts: Cuts, key: bytes) -> NDArray[np.int64]:
        exact = search.count(cuts, both_sides=True)
        width = exact.shape[1] // 2
        return self._answer(exact.reshape(-1, width), key).reshape(exact.shape)

    def of_nodes(
        self, search: PointSearch, nodes: NDArray[np.int64], key: bytes
    ) -> NDArray[np.int64]:
        return self._answer(_node_sums(search, nodes), derive_key(key, b"whole nodes"))

    def of_table(self, key: bytes) -> NDArray[np.int64]:
        exact = _count_classes(self.targets, rows_apart=True)
        return self._answer(exact.reshape(1, -1), key).reshape(-1)

    def _answer(self, exact: NDArray[np.int64], key: bytes) -> NDArray[np.int64]:
        """Add noise to class counts, or to the sum of targets."""
        labels = slice(1, 2) if self.targets.kind.is_regression else slice(0, -1)
        noisy = exact.copy()
        noisy[:, labels] = add_noise(exact[:, labels], self.epsilon, self.sensitivity, key)
        return noisy


def _node_sums(search: PointSearch, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the label sums of whole nodes."""
    if len(nodes) == 0:
        return np.zeros((0, search.layout.width), np.int64)
    return search.node_sums()[nodes]


def _count_classes(targets: TrainingTargets, *, rows_apart: bool) -> NDArray[np.int64]:
    """Return the weight of each class in the table, and its rows if `rows_apart`."""
    weights = targets.kernel.weights
    counts = np.zeros(targets.kind.n_classes, np.int64)
    np.add.at(counts, targets.classes, weights if len(weights) else 1)
    return np.append(counts, np.count_nonzero(targets.allowed)) if rows_apart else counts


def choose_statistics(
    agreed: AgreeOnTable, targets: TrainingTargets, response_key: bytes, row_keys: RowKeys | None
) -> Statistics:
    """Choose the statistics that the run demands; without `row_keys`, rows are numbered."""
    protection = agreed.protection
    if protection.kind == "local":
        code = resolve_code(agreed)
        rows = row_keys() if row_keys else np.arange(targets.n_rows, dtype=np.uint64)
        responses = permanent_responses(code, targets.classes, rows, response_key)
        short = np.uint8 if code.bits <= SHORT_CODE else np.uint64  # less memory per row
        return LocalStatistics(code, responses.astype(short))
    if protection.kind == "global":
        return GlobalStatistics(targets, protection.epsilon_query, find_sensitivity(agreed))
    return ExactStatistics(targets, agreed.rows_apart, agreed.both_sides)


def find_sensitivity(agreed: AgreeOnTable) -> int:
    """Return by how much one row's label can change the sums of one query, in total."""
    if agreed.classes:
        return LABEL_MOVES
    return TargetGrid.of((agreed.protection.low, agreed.protection.high)).sensitivity


def resolve_code(agreed: AgreeOnTable) -> ResponseCode:
    """Return the code of noisy labels, which depends on the names of the classes."""
    asked = agreed.protection
    privacy = LocalDP(keep=asked.keep, bits=asked.bits, hashes=asked.hashes, p=asked.p, q=asked.q)
    privacy.check(is_regression=not agreed.classes)
    meaning = repr((agreed.class_dtype, agreed.classes)).encode()
    return privacy.resolve(len(agreed.classes), meaning)
