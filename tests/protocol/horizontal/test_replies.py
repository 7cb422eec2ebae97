"""Nothing leaves a party in a type that is not walked against the allow-list."""

import msgspec
import pytest

from tests.protocol.horizontal.test_secrecy import MODES, train_mode
from tests.protocol.test_payloads import REPLIES


@pytest.mark.parametrize("mode", MODES)
def test_every_reply_of_a_training_is_one_whose_fields_are_on_the_allow_list(mode: str) -> None:
    walked = {reply.__name__ for reply in REPLIES}
    said = {
        msgspec.msgpack.decode(data)[0]
        for replies in train_mode(mode).recorder.replies
        for data in replies.values()
    }
    assert said <= walked
    assert {"TableDeclared", "ThresholdsProposed", "Accepted"} <= said
