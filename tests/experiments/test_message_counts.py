"""Table 1 of the k-PPD-ERT paper, as counted from real messages."""

from collections import Counter
from pathlib import Path

import pytest

from fedforest.experiments.findings import to_markdown
from fedforest.experiments.horizontal.message_counts import (
    MEDIATOR,
    SIZES,
    count_messages,
    make_finding,
    name_plug,
    paper_total,
    plugs_for,
    tabulate,
    thresholds,
)
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "protocols" / "aggregation.md"
SHOWN = (3, 5, 10, 20)


def parties(n: int) -> list[str]:
    return [f"party {number}" for number in range(1, n)]


@pytest.mark.parametrize("n", SIZES)
def test_in_a_ring_everybody_sends_and_receives_once(n: int) -> None:
    counted = count_messages(Ring(), n)
    everybody = Counter([*parties(n), MEDIATOR])
    assert counted.sent == counted.received == everybody
    assert counted.total == 2 * n == paper_total(Ring(), n)
    assert counted.relayed == n - 2
    assert counted.questions == n - 1


@pytest.mark.parametrize("n", SIZES)
def test_masked_sums_are_sent_once_by_every_party_to_the_mediator(n: int) -> None:
    counted = count_messages(Masked(), n)
    assert counted.sent == Counter(parties(n))
    assert counted.received == Counter({MEDIATOR: n - 1})
    assert counted.total == 2 * (n - 1) == paper_total(Masked(), n)
    assert counted.relayed == 0
    assert counted.questions == n - 1


def test_the_number_of_peers_changes_no_message() -> None:
    counts = [count_messages(Masked(k), 8) for k in (None, 1, 3, 7)]
    assert all(count == counts[0] for count in counts)


@pytest.mark.parametrize("n", SIZES)
def test_shares_go_from_everybody_to_everybody_and_a_few_come_back(n: int) -> None:
    for k in thresholds(n):
        counted = count_messages(Shamir(k), n)
        returning, rest = parties(n)[: k - 1], parties(n)[k - 1 :]
        assert counted.sent == Counter(
            {MEDIATOR: n - 1, **dict.fromkeys(returning, n), **dict.fromkeys(rest, n - 1)}
        )
        assert counted.received == Counter(
            {MEDIATOR: n + k - 2, **dict.fromkeys(parties(n), n - 1)}
        )
        assert counted.total == 2 * (n * n - n + k - 1) == paper_total(Shamir(k), n)
        assert counted.relayed == (n - 1) * (n - 2)
        assert counted.questions == n - 1


def test_set_up_is_three_exchanges_with_everybody_for_masks_and_two_else() -> None:
    assert [count_messages(plug, 6).set_up for plug in (Masked(), Ring(), Shamir(2))] == [
        *(3 * 2 * 5, 2 * 2 * 5, 2 * 2 * 5)
    ]


def test_the_table_in_the_documents_is_the_one_that_is_counted() -> None:
    finding = make_finding(
        [(n, name_plug(plug), tabulate(plug, n)) for n in SHOWN for plug in plugs_for(n)]
    )
    assert {row[4] for row in finding.rows} == {"yes"}
    assert to_markdown(finding) in PAGE.read_text(encoding="utf-8")
