"""The coordinator of a recall: the rows, now, of the ids that a standing alignment put together.

Who learns what. The coordinator sees which of these ids still have a row at which party, by their
numbers in the common order. No list is compared, so no party learns of an id that it did not know.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fedforest.protocol.aggregation.introduction import introduce_parties
from fedforest.protocol.alignment.coordinator import (
    CommonRows,
    refuse_few_common,
    refuse_other_forms,
)
from fedforest.protocol.alignment.messages import (
    CompareRows,
    FindRows,
    MatchesTaken,
    TakeFound,
)
from fedforest.protocol.alignment.payloads import RowsProof, pack_bits
from fedforest.protocol.asking import Conversation, ask, blame, check


def recall(run: bytes, parties: Sequence[str], n_common: int) -> Conversation[CommonRows]:
    """Tell every party which of the `n_common` ids have a row at all of them; return the counts."""
    yield from introduce_parties(run, parties, with_seeds=False)
    replies = yield from ask(dict.fromkeys(parties, FindRows()))
    counts = {party: replies[party].counts for party in parties}
    refuse_other_forms(counts)
    common = np.ones(n_common, np.bool_)
    for party in parties:
        with blame(party):
            common &= replies[party].found.read(n_common)
    refuse_few_common(int(common.sum()), counts)
    taken = yield from ask(dict.fromkeys(parties, TakeFound(pack_bits(common))))
    for party in parties:
        with blame(party):
            check(len(taken[party].proofs) == len(parties) - 1, "not one proof of every pair")
    yield from ask({party: CompareRows(_proofs_for(party, parties, taken)) for party in parties})
    return CommonRows(
        int(common.sum()),
        {party: counts[party].n_rows for party in parties},
        {party: counts[party].n_left_out for party in parties},
    )


def _proofs_for(
    party: str, parties: Sequence[str], taken: Mapping[str, MatchesTaken]
) -> tuple[RowsProof, ...]:
    """Collect the proofs that all others made for a party; each made one for every other."""
    return tuple(
        taken[other].proofs[[each for each in parties if each != other].index(party)]
        for other in parties
        if other != party
    )
