"""A request with its place in a run, as it travels from the coordinator to a party.

A party counts the requests of each run that it has answered. By the number it knows a request that
it answered before from a new one, and one that comes too late or too early from both.
"""

from typing import Annotated

import msgspec

from fedforest.protocol.asking import Message

RUN_ID_BYTES = 16

RunId = Annotated[bytes, msgspec.Meta(min_length=RUN_ID_BYTES, max_length=RUN_ID_BYTES)]
Sequence = Annotated[int, msgspec.Meta(ge=1, lt=2**53)]


class RunRequest(Message, frozen=True):
    """The `sequence`-th request, from 1 on, that this party gets in this run."""

    run: RunId
    sequence: Sequence
    payload: memoryview  # a message of the run's protocol
