"""The peers that each party shares masks with in a step: k, drawn by its selection seed.

All parties know all selection seeds and compute the same choice; the coordinator knows none. The
choice is drawn again until the graph of peers stays connected whichever k - 1 parties are taken
out of it. Connected alone would not do: colluders that sit between two groups of honest parties
would learn the sum of each group, where they may learn the sum of all honest parties only.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count

import numpy as np

from fedforest.errors import MaskingError
from fedforest.masking.connectivity import stays_connected
from fedforest.masking.key_agreement import (
    derive_key,
    encode_name,
    encode_number,
    join_contexts,
)
from fedforest.masking.keystream import expand

_PEER_CHOICE = b"peer choice"

Peers = Mapping[str, tuple[str, ...]]  # whom each participant chose; not to be changed


def choose_peers(
    seeds: Mapping[str, bytes], participants: Sequence[str], k: int | None, step: int
) -> Peers:
    """Each participant's peers, k of them or, where fewer take part or k is None, all others.

    The order of participants does not matter. `seeds` may hold others too.
    """
    names = _check_participants(participants, seeds)
    n_peers = len(names) - 1 if k is None else min(k, len(names) - 1)
    if n_peers < 1:
        raise MaskingError(f"every party needs at least one peer; k is {k}")
    if n_peers == len(names) - 1:
        return _choose_all(names)
    # few attempts: nearly every choice holds together, and at k = 1 one of several
    attempts = (_draw(seeds, names, n_peers, step, attempt) for attempt in count())
    return next(peers for peers in attempts if stays_connected(peers, n_peers - 1))


@lru_cache(maxsize=256)
def _choose_all(names: tuple[str, ...]) -> Peers:
    """Everybody is everybody's peer: the same in every step, and asked for in each."""
    return {party: tuple(name for name in names if name != party) for party in names}


def choose_partners(
    party: str, seeds: Mapping[str, bytes], participants: Sequence[str], k: int | None, step: int
) -> tuple[str, ...]:
    """Choose a participant's partners: the peers it chose, and those that chose it."""
    names = _check_participants(participants, seeds)
    if party in names and (k is None or k >= len(names) - 1):  # everybody, without a look at peers
        return tuple([name for name in names if name != party])
    return find_partners(party, choose_peers(seeds, names, k, step))


def find_partners(party: str, peers: Peers) -> tuple[str, ...]:
    """Find the partners of a known choice; refuse one whose masks would not cancel."""
    check_peers(peers)
    if party not in peers:
        raise MaskingError.stating(
            "party {whom!r} masks a vector but takes no part in its sum", whom=party
        )
    return tuple(other for other in peers if other in peers[party] or party in peers[other])


def check_peers(peers: Peers) -> None:
    """Refuse choices under which masks would not cancel, or a party would have none of its own."""
    for party, chosen in peers.items():
        if not chosen:
            raise MaskingError.stating(
                "party {whom!r} has no peers, so nothing would mask its vector", whom=party
            )
        if party in chosen:
            raise MaskingError.stating(
                "party {whom!r} is its own peer: that mask would cancel at once", whom=party
            )
        if len(set(chosen)) != len(chosen):
            raise MaskingError.stating(
                "party {whom!r} names a peer twice: it would use one mask twice", whom=party
            )
        strangers = sorted(set(chosen) - peers.keys())
        if strangers:
            raise MaskingError.stating(
                "party {whom!r} has peers that take no part, so masks would stay in the sum: "
                "{strangers}",
                whom=party,
                strangers=", ".join(map(repr, strangers)),
            )


def _draw(
    seeds: Mapping[str, bytes], names: Sequence[str], n_peers: int, step: int, attempt: int
) -> Peers:
    """Each party's peers are those with the smallest random words: every choice is as likely."""
    together = join_contexts(map(encode_name, names))
    occasion = [encode_number(step), encode_number(attempt), together]
    peers = {}
    for number, party in enumerate(names):
        key = derive_key(seeds[party], _PEER_CHOICE, encode_name(party), *occasion)
        order = np.argsort(expand(key, len(names)), kind="stable")
        chosen = order[order != number][:n_peers]
        peers[party] = tuple(names[i] for i in sorted(chosen))
    return peers


def _check_participants(participants: Sequence[str], seeds: Mapping[str, bytes]) -> tuple[str, ...]:
    names = _sort_names(tuple(participants))
    unknown = [name for name in names if name not in seeds]
    if unknown:
        raise MaskingError.stating(
            "no selection seed is known of {strangers}: exchange seeds first",
            strangers=", ".join(map(repr, unknown)),
        )
    return names


@lru_cache(maxsize=1024)
def _sort_names(participants: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of their names; the same sets of parties take part in every step."""
    names = tuple(sorted(participants))
    if len(set(names)) != len(names):
        raise MaskingError.stating("a party is named twice among the participants of a masked sum")
    if len(names) < 2:
        raise MaskingError.stating(
            "a masked sum needs two participants, not {number}: the sum over one party is that "
            "party's own vector",
            number=len(names),
        )
    return names
