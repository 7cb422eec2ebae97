"""What travels is pinned: a message that changes needs another version of the protocol."""

import pytest

from fedforest.transport.frames import PROTOCOL_VERSION
from tests.transport.wire import (
    ADVICE,
    PINNED,
    find_changes,
    from_text,
    is_announced,
    list_wire,
    to_text,
)


def test_what_travels_is_what_the_version_of_the_protocol_says() -> None:
    version, pinned = from_text(PINNED.read_text())
    changes = find_changes(pinned, list_wire())
    advice = ADVICE.format(version=max(version + 1, PROTOCOL_VERSION))
    assert not changes, "\n".join(["Messages have changed:", *changes, advice])
    assert version == PROTOCOL_VERSION, f"wire.txt is of version {version}; run `make wire`"


def test_everything_that_is_encoded_for_a_peer_is_listed() -> None:
    """One of each kind; all others are found in the same way."""
    assert list_wire().keys() >= {
        "transport.Refusal",
        "transport.Card",
        "membership.Invitation",
        "messages.RunRequest",
        "messages.BeginRun",
        "messages.HorizontalRole",
        "messages.Terms",
        "messages.TrainVertical",
        "messages.VerticalResult",
        "growth.ForestParameters",  # in orders
        "horizontal.CutsQuestion",  # in parts of sums
        "vertical.FindSplits",
        "vertical.RowMoves",
        "horizontal.CutMoves",
        "protocol.Accepted",
    }


def test_the_failure_names_the_message_and_the_field_that_changed() -> None:
    listing = list_wire()
    other = {name: [*lines] for name, lines in listing.items()}
    assert find_changes(listing, other) == []
    other["vertical.FindSplits"][-1] = "slot: Str()"
    other["vertical.RowMoves"].reverse()
    other["vertical.New"] = []
    del other["transport.Hello"]
    assert find_changes(listing, other) == [
        "transport.Hello is gone",
        "vertical.FindSplits: slot: Int(ge=0, lt=4) = 0 -> slot: Str()",
        "vertical.New is new",
        "vertical.RowMoves: the order of its fields",
    ]


def test_a_listing_is_read_as_it_was_written() -> None:
    assert from_text(to_text(7, list_wire())) == (7, list_wire())


@pytest.mark.parametrize(
    ("changelog", "announced"),
    [
        ("## [Unreleased]\n\n### Breaking\n\n- Now; the protocol's\n  version is 6.\n", True),
        ("## [Unreleased]\n### Breaking\n- A\n### Breaking\n- The protocol's version is 6\n", True),
        ("## [Unreleased]\n\n### Breaking\n\n- The protocol's version is 60.\n", False),
        ("## [Unreleased]\n\n### Added\n\n- The protocol's version is 6.\n", False),
        ("## [Unreleased]\n\n## [0.2]\n\n### Breaking\n\n- The protocol's version is 6.\n", False),
        ("", False),
    ],
)
def test_a_version_is_announced_under_breaking_of_what_is_not_released(
    changelog: str, announced: bool
) -> None:
    assert is_announced(changelog, 6) is announced
