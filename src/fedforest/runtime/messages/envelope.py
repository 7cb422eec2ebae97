"""A request from the coordinator to a party, with its number in a run.

A party counts the requests it has answered in each run. The number tells it whether a request is
new, a repetition, or out of sequence.
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
