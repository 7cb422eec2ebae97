"""A party answers every step once: the same request gets the stored bytes, another one is refused.

A second point would show more of a range, a second noisy answer would average the noise away, and
two vectors under the same masks would differ by what masks were to hide.
"""

from typing import Any

import msgspec
import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.protocol.aggregation.messages import CountParts
from fedforest.protocol.horizontal.messages import ProposeThresholds
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import encode
from tests.protocol.horizontal.recordings import Recording, record

KINDS = ["classes", "numbers", "masked", "local", "global"]
REPEATED = ["ProposeThresholds", "CountParts"]


def changed(request: Any) -> bytes:
    """Another request under the same number, one that could have been meant."""
    if isinstance(request, ProposeThresholds):
        candidates = bytearray(request.candidates)
        candidates[0] ^= 1
        return encode(msgspec.structs.replace(request, candidates=memoryview(bytes(candidates))))
    assert isinstance(request, CountParts)
    return encode(msgspec.structs.replace(request, parts=request.parts[:1] * 2))


def answered(recording: Recording, kind: str, nth: int) -> tuple[Any, int]:
    """An endpoint that has just answered the nth request of a kind, and which step that was."""
    step = recording.steps_of(kind)[nth]
    return make_endpoint(recording.party_before(step + 1), REQUESTS), step


@pytest.mark.parametrize("nth", [0, 1, -1])
@pytest.mark.parametrize("request_kind", REPEATED)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_request_gets_the_very_same_reply(kind: str, request_kind: str, nth: int) -> None:
    recording = record(kind)
    endpoint, step = answered(recording, request_kind, nth)
    for _ in range(3):
        assert endpoint(recording.requests[step]) == recording.replies[step]
    for later, reply in zip(
        recording.requests[step + 1 :], recording.replies[step + 1 :], strict=True
    ):
        assert endpoint(later) == reply


@pytest.mark.parametrize("nth", [0, 1, -1])
@pytest.mark.parametrize("request_kind", REPEATED)
@pytest.mark.parametrize("kind", KINDS)
def test_another_request_under_an_answered_step_is_refused(
    kind: str, request_kind: str, nth: int
) -> None:
    recording = record(kind)
    endpoint, step = answered(recording, request_kind, nth)
    with pytest.raises(RemoteProtocolError, match="another request under step"):
        endpoint(changed(recording.request(step)))
    assert endpoint(recording.requests[step]) == recording.replies[step]


@pytest.mark.parametrize("request_kind", REPEATED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_is_over_is_not_answered_again(kind: str, request_kind: str) -> None:
    recording = record(kind)
    steps = recording.steps_of(request_kind)
    endpoint, _ = answered(recording, request_kind, 2)
    for step in steps[:2]:
        for request in (recording.requests[step], changed(recording.request(step))):
            with pytest.raises(RemoteProtocolError, match="is over"):
                endpoint(request)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_point_is_not_to_be_had_under_a_new_number_either(kind: str) -> None:
    """The same columns of the same nodes, asked as if it were the next step, are refused."""
    recording = record(kind)
    endpoint, step = answered(recording, "ProposeThresholds", 1)
    request = recording.request(step)
    endpoint(encode(request))
    again = msgspec.structs.replace(request, step=request.step + 1, moves=None, start=None)
    with pytest.raises(RemoteProtocolError, match="before the last one ended"):
        endpoint(encode(again))
