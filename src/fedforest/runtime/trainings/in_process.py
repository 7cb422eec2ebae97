"""Train with all roles in this process: requests and messages are those of a network.

Only two things differ: the transport, and columns, which are passed in instead of read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fedforest.masking.key_agreement import IdentityKey, fingerprint
from fedforest.privacy.randomized_response import Randomness
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.protocol.asking import Conversation
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.federation import connect
from fedforest.runtime.messages.envelope import RUN_ID_BYTES
from fedforest.runtime.randomness import RandomnessSource, SystemRandomness
from fedforest.runtime.trainings.base import CoordinatorMeans
from fedforest.runtime.trainings.party_task import PartyMeans
from fedforest.runtime.trainings.registry import training_of
from fedforest.runtime.trainings.warm_start import CoordinatorModel
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.growth.level_loop import BATCH_BYTES
from fedforest.tree.table.pieces import Allocate
from fedforest.tree.workers import ALONE, Workers


@dataclass(frozen=True, slots=True)
class ProcessMeans:
    """The inputs that all roles of one process use."""

    randomness: RandomnessSource
    workers: Workers = ALONE
    n_at_once: int = 1  # parties that work at the same time; threads are divided among them
    earlier: CoordinatorModel | None = None  # the forest that gets further trees
    batch_bytes: int = BATCH_BYTES
    allocate: Allocate = np.empty  # for arrays as large as a table
    make_rows: MakeRows | None = None  # None: tables are in this process


class TrainedHere(NamedTuple):
    """The outcome of a training in one process."""

    trained: Any  # the coordinator's result; its type depends on the protocol
    works: Mapping[str, Any]  # the work of each party


def train_in_process(
    order: Any, columns: Mapping[str, Any], means: ProcessMeans, log: ExchangeLog | None = None
) -> TrainedHere:
    """Carry out a request with the columns of each party, in the form its training reads."""
    training = training_of(order)
    training.check(order)
    members = cache(lambda: make_members(tuple(order.data), means.randomness))
    works = {
        party: make_work(order, (party, columns[party]), means, members) for party in order.data
    }
    handlers = {party: work.handler for party, work in works.items()}
    transport = connect(handlers, training.requests, means.workers)
    return TrainedHere(run(begin_conversation(order, means), transport, log), works)


def make_work(
    order: Any,
    holder: tuple[str, Any],
    means: ProcessMeans,
    members: Callable[[], Mapping[str, PartyIdentity]],
) -> Any:
    """Make the work of one party with its columns."""
    party, columns = holder
    training = training_of(order)
    own, each = _Own(means.randomness, party), means.workers.divided(means.n_at_once)
    keys, terms = _Keys(own, members), training.terms(order)
    party_means = PartyMeans(
        own, keys, terms, workers=each, allocate=means.allocate, make_rows=means.make_rows
    )
    return training.work(training.roles(order)[party], columns, party_means)


def begin_conversation(order: Any, means: ProcessMeans) -> Conversation[Any]:
    """Begin the coordinator's side of a training."""
    randomness = means.randomness.of("/coordinator")
    return training_of(order).conversation(
        order,
        CoordinatorMeans(
            randomness(RUN_ID_BYTES),
            randomness,
            means.workers,
            means.earlier,
            means.batch_bytes,
        ),
    )


class _Own(NamedTuple):
    """The randomness of one party."""

    randomness: RandomnessSource
    party: str

    def of(self, name: str) -> Randomness:
        """Return secret bytes for one purpose; they differ between parties."""
        return self.randomness.of(f"{self.party}/{name}")


class _Keys(NamedTuple):
    """One party's identity, made for this training if sums are protected."""

    own: _Own
    members: Callable[[], Mapping[str, PartyIdentity]]

    @property
    def pins(self) -> Mapping[str, str]:
        """Fingerprints of the other parties."""
        return self.members()[self.own.party].pins

    def response_key(self, context: bytes) -> bytes:  # noqa: ARG002 - each fit has a fresh key
        """Return the key from which permanent responses of this fit are drawn."""
        return self.own.of("responses")(32)

    def member(self, randomness: RandomnessSource) -> PartyIdentity:  # noqa: ARG002 - the party's own
        """Return the party as a member of this training."""
        return self.members()[self.own.party]


def make_members(
    parties: tuple[str, ...], randomness: RandomnessSource
) -> dict[str, PartyIdentity]:
    """Make every party's identity, with the fingerprints of the other parties."""
    identities = {
        party: IdentityKey.from_randomness(randomness.of(f"{party}/identity")) for party in parties
    }
    pins = {party: fingerprint(key.public) for party, key in identities.items()}
    return {
        party: PartyIdentity(
            party,
            identity,
            {other: pin for other, pin in pins.items() if other != party},
            randomness.of(f"{party}/aggregation"),
        )
        for party, identity in identities.items()
    }


NO_SEED = SystemRandomness(None)  # the system's randomness for every role
