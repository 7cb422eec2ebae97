"""A request from the coordinator to a party, with its number in a run.

A party counts the requests it has answered in each run. The number tells it whether a request is
new, a repetition, or out of sequence.
"""

from hashlib import blake2b
from typing import Annotated

import msgspec

from fedforest.protocol.asking import Message

RUN_ID_BYTES = 16
ALIGNMENT_PART = "alignment"  # before a run or a prediction
ALONE_PART = "alone"  # the baseline of a party
MOST_BEGINNINGS = 5  # of one prediction: a party that restarts more often has another problem

RunId = Annotated[bytes, msgspec.Meta(min_length=RUN_ID_BYTES, max_length=RUN_ID_BYTES)]
Sequence = Annotated[int, msgspec.Meta(ge=1, lt=2**53)]


def derive_part(run: bytes, name: str) -> bytes:
    """Derive the id of a part of a run, or of a prediction that was ordered."""
    return blake2b(name.encode(), key=run, digest_size=RUN_ID_BYTES, person=b"part").digest()


def name_baseline(party: str) -> str:
    """Return the name of the part of a vertical run that trains a party's baseline."""
    return f"{ALONE_PART}, {party}"


def derive_prediction(order: bytes, n_before: int) -> bytes:
    """Derive the id of a prediction that was ordered and begun so many times before."""
    return derive_part(order, f"prediction {n_before}")


class RunRequest(Message, frozen=True):
    """The `sequence`-th request, from 1 on, that this party gets in this run."""

    run: RunId
    sequence: Sequence
    payload: memoryview  # a message of the run's protocol
