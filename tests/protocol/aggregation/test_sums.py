"""Every plug gives exactly the plain sum, or says by name why it gives none."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import (
    ConfigurationError,
    LocalProtocolError,
    MaskingError,
    ProtocolError,
    RemoteProtocolError,
    TooFewParties,
)
from fedforest.protocol.aggregation.base import Segment
from fedforest.protocol.aggregation.messages import Count, CountMasked, Part, PassOn, ShareOut
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.payloads import LARGEST_SUM
from fedforest.protocol.aggregation.plugs import Plug, make_aggregation, make_aggregator
from fedforest.protocol.asking import Message
from tests.protocol.aggregation.federations import (
    PLUGS,
    PROTECTED,
    federation,
    seeded_randomness,
    some_vectors,
)


@dataclass(frozen=True)
class Case:
    """Vectors of every party under every question, and who takes part in which sum."""

    vectors: dict[str, dict[bytes, NDArray[np.int64]]]
    participants: list[tuple[str, ...]]


@st.composite
def cases(draw: st.DrawFn, least: int = 2) -> Case:
    names = [f"party {number}" for number in range(draw(st.integers(least, 10)))]
    participants = draw(
        st.lists(
            st.lists(st.sampled_from(names), min_size=least, unique=True).map(tuple),
            max_size=4,
        )
    )
    lengths = [draw(st.integers(0, 6)) for _ in participants]
    largest = (LARGEST_SUM - 1) // len(names)
    numbers = st.integers(-largest, largest) | st.integers(-3, 3) | st.just(largest)
    vectors = {
        name: {
            b"sum %d" % place: np.array(
                draw(st.lists(numbers, min_size=length, max_size=length)), np.int64
            )
            for place, length in enumerate(lengths)
        }
        for name in names
    }
    return Case(vectors, participants)


PROTECTED_PLUGS = (
    st.just(Ring())
    | st.builds(Masked, st.none() | st.integers(1, 12))
    | st.builds(Shamir, st.integers(2, 12))
)


def assert_sums_are_exact(plug: Plug, case: Case) -> None:
    parties = federation(plug, case.vectors).introduce()
    segments = [
        Segment(names, b"sum %d" % place, len(case.vectors[names[0]][b"sum %d" % place]))
        for place, names in enumerate(case.participants)
    ]
    for step in (1, 2**40):
        gathered = parties.gather(step, segments)
        assert gathered.lost == frozenset()
        assert len(gathered.sums) == len(segments)
        for total, segment in zip(gathered.sums, segments, strict=True):
            assert total.dtype == np.int64
            assert total.tolist() == parties.expected(segment).tolist()


@given(PROTECTED_PLUGS, cases())
@settings(max_examples=60)
def test_a_protected_sum_is_exactly_the_plain_sum(plug: Plug, case: Case) -> None:
    assert_sums_are_exact(plug, case)


@given(PROTECTED_PLUGS, cases(), st.data())
@settings(max_examples=30)
def test_sums_are_exact_whichever_of_them_a_step_asks_for(
    plug: Plug, case: Case, data: st.DataObject
) -> None:
    """What a party remembers of the last step, about who took part, does not reach the next."""
    parties = federation(plug, case.vectors).introduce()
    segments = [
        Segment(names, b"sum %d" % place, len(case.vectors[names[0]][b"sum %d" % place]))
        for place, names in enumerate(case.participants)
    ]
    for step in range(1, 5):
        asked = [segment for segment in segments if data.draw(st.booleans())]
        gathered = parties.gather(step, asked)
        expected = [parties.expected(segment).tolist() for segment in asked]
        assert [total.tolist() for total in gathered.sums] == expected


@given(cases(least=1))
def test_a_plain_sum_is_exact_also_over_one_party(case: Case) -> None:
    assert_sums_are_exact("plain", case)


def test_nobody_takes_part_in_a_plain_sum_of_zeros() -> None:
    parties = federation("plain", some_vectors(2))
    assert parties.gather(1, [Segment((), b"q0", 3)]).sums[0].tolist() == [0, 0, 0]


def test_noisy_sums_are_added_like_plain_ones_but_are_another_type() -> None:
    vectors = some_vectors(3)
    noisy = federation("plain", vectors, is_noisy=True)
    segment = noisy.segment(b"q0")
    assert noisy.gather(1, [segment]).sums[0].tolist() == noisy.expected(segment).tolist()
    plain = federation("plain", vectors)
    plain.network.endpoints = noisy.network.endpoints
    with pytest.raises(RemoteProtocolError, match="no request of this protocol"):
        plain.gather(2, [segment])


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_where_nothing_is_asked_nothing_is_sent(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3)).introduce()
    before = len(parties.network.requests)
    gathered = parties.gather(1, [])
    assert (gathered.sums, gathered.lost) == ([], frozenset())
    assert not any(parties.network.requests[before:])


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
@pytest.mark.parametrize("n_participants", [0, 1])
def test_a_protected_sum_over_one_party_is_refused_before_anything_is_sent(
    plug: Plug, n_participants: int
) -> None:
    parties = federation(plug, some_vectors(3)).introduce()
    before = len(parties.network.requests)
    lonely = parties.segment(b"q0", parties.names[:n_participants])
    with pytest.raises(TooFewParties, match="at least 2 must take part"):
        parties.gather(1, [parties.segment(b"q0"), lonely])
    assert len(parties.network.requests) == before


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
def test_a_federation_of_one_party_is_not_introduced(plug: Plug) -> None:
    with pytest.raises(TooFewParties, match="nobody to hide among"):
        federation(plug, some_vectors(1)).introduce()


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
def test_the_floor_of_participants_can_be_raised_but_not_lowered(plug: Plug) -> None:
    parties = federation(plug, some_vectors(4), least_participants=3).introduce()
    parties.gather(1, [parties.segment(b"q0", ["p0", "p2", "p3"])])
    with pytest.raises(TooFewParties, match="at least 3 must take part"):
        parties.gather(2, [parties.segment(b"q0", ["p0", "p2"])])
    member = parties.members["p0"]
    for make in (
        lambda: make_aggregation(plug, b"a new run", seeded_randomness(1), least_participants=1),
        lambda: make_aggregator(plug, member=member, least_participants=1),
    ):
        with pytest.raises(ConfigurationError, match="least_participants=1"):
            make()


def test_a_protected_sum_needs_a_member() -> None:
    with pytest.raises(LocalProtocolError, match="pins"):
        make_aggregator(Masked())


def test_nobody_takes_part_twice() -> None:
    with pytest.raises(LocalProtocolError, match="twice"):
        Segment(("p0", "p1", "p0"), b"", 1)


def ask(plug: Plug, step: int, *parts: Part) -> Message:
    """The first request of a plug for these parts."""
    if isinstance(plug, Ring):
        return PassOn(step, parts, tuple(memoryview(bytes(40)) for _ in parts))
    if isinstance(plug, Shamir):
        return ShareOut(step, parts)
    return CountMasked(step, parts) if isinstance(plug, Masked) else Count(step, parts)


def part(*participants: str, question: bytes = b"q0") -> Part:
    return Part(participants, memoryview(question))


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([part("p1", "p2", "p3")], "takes no part"),
        ([part("p0", "p1", "p1")], "named twice"),
        ([part("p0", "p0")], "named twice"),
        ([part("p0", "p9")], "stranger"),
        ([part("p0", "p1")], "fewer than 3"),
        ([part("p0")], "fewer than 3"),
        ([part()], "takes no part"),
        ([], "nothing is asked"),
        ([part("p0", "p1", "p2"), part("p0", "p1")], "fewer than 3"),
        ([part("p0", "p1", "p2"), part("p0", "p1", "p2")], "asked twice"),
        ([part("p0", "p1", "p2", question=b"?")], "nobody understands"),
    ],
)
def test_a_party_refuses_sums_it_should_not_be_in(
    plug: Plug, parts: list[Part], reason: str
) -> None:
    parties = federation(plug, some_vectors(4), least_participants=3).introduce()
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        parties.parties["p0"].handle(ask(plug, 1, *parts))
    assert caught.value.party == "coordinator"
    segment = parties.segment(b"q0")
    assert parties.gather(1, [segment]).sums[0].tolist() == parties.expected(segment).tolist()


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
def test_a_sum_is_refused_before_the_parties_were_introduced(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3))
    with pytest.raises(RemoteProtocolError, match="introduced"):
        parties.gather(1, [parties.segment(b"q0")])
    assert sum(answers.n_computed for answers in parties.answers.values()) == 0


@pytest.mark.parametrize("plug", PLUGS, ids=str)
@pytest.mark.parametrize("number", [LARGEST_SUM, -LARGEST_SUM, -(2**63), 2**63 - 1])
def test_a_number_that_some_plug_could_not_carry_is_refused_where_it_is(
    plug: Plug, number: int
) -> None:
    vectors = some_vectors(3)
    vectors["p1"][b"q0"][2] = number
    parties = federation(plug, vectors).introduce()
    with pytest.raises(LocalProtocolError, match="large"):
        parties.gather(1, [parties.segment(b"q0")])


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64])
def test_an_answer_of_another_type_is_our_own_fault(dtype: type) -> None:
    parties = federation("plain", some_vectors(2))
    parties.answers["p0"].vectors[b"q0"] = np.zeros(5, dtype)
    with pytest.raises(LocalProtocolError, match="64-bit integers"):
        parties.gather(1, [parties.segment(b"q0")])


@pytest.mark.parametrize("plug", ["plain", Masked(), Ring()], ids=str)
def test_numbers_whose_sum_is_too_large_are_never_added_wrongly(plug: Plug) -> None:
    vectors = {f"p{i}": {b"q0": np.full(1, LARGEST_SUM - 1)} for i in range(2)}
    parties = federation(plug, vectors).introduce()
    with pytest.raises((MaskingError, ProtocolError), match=r"than (it|a sum) can be"):
        parties.gather(1, [parties.segment(b"q0")])


@pytest.mark.parametrize("n_parties", [8, 16, 17])
def test_plain_sums_that_would_wrap_around_to_small_ones_are_refused(n_parties: int) -> None:
    vectors = {f"p{i}": {b"q0": np.full(1, LARGEST_SUM - 1)} for i in range(n_parties)}
    parties = federation("plain", vectors)
    with pytest.raises(ProtocolError, match="more than a sum can be"):
        parties.gather(1, [parties.segment(b"q0")])


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_a_sum_that_is_larger_than_whoever_asks_knows_it_can_be_is_refused(plug: Plug) -> None:
    vectors = {f"p{i}": {b"q0": np.array([3, -20, 5])} for i in range(3)}
    parties = federation(plug, vectors).introduce()
    wanted = parties.segment(b"q0")
    assert parties.gather(1, [replace(wanted, largest=60)]).sums[0].tolist() == [9, -60, 15]
    with pytest.raises((MaskingError, ProtocolError), match="can be"):
        parties.gather(2, [replace(wanted, largest=59)])
    for largest in (-1, LARGEST_SUM):
        with pytest.raises(LocalProtocolError, match="every plug"):
            replace(wanted, largest=largest)


@pytest.mark.parametrize(
    ("plug", "n_exchanges"), list(zip(PLUGS, (1, 1, 1, 4, 2, 2), strict=True)), ids=str
)
def test_a_sum_takes_as_few_exchanges_as_the_plug_needs(plug: Plug, n_exchanges: int) -> None:
    parties = federation(plug, some_vectors(4, lengths=(5, 2, 0))).introduce()
    before = len(parties.network.requests)
    parties.gather(
        1,
        [
            parties.segment(b"q0"),
            parties.segment(b"q1", ["p1", "p3"]),
            parties.segment(b"q2", ["p2", "p1", "p0"]),
        ],
    )
    assert len(parties.network.requests) - before == n_exchanges


def test_parties_that_disagree_on_their_peers_are_found_out() -> None:
    vectors = some_vectors(5, lengths=(200,))
    parties, others = (federation(Masked(k), vectors).introduce() for k in (1, 2))
    parties.network.endpoints = {**parties.network.endpoints, "p3": others.network.endpoints["p3"]}
    with pytest.raises(MaskingError, match="did not cancel"):
        parties.gather(1, [parties.segment(b"q0")])


def test_a_question_reaches_only_those_who_take_part() -> None:
    parties = federation(Masked(), some_vectors(4, lengths=(5, 5))).introduce()
    before = len(parties.network.requests)
    parties.gather(1, [parties.segment(b"q0", ["p0", "p1"]), parties.segment(b"q1", ["p0", "p2"])])
    (requests,) = parties.network.requests[before:]
    assert requests.keys() == {"p0", "p1", "p2"}
    assert b"q1" not in requests["p1"]
    assert b"q0" not in requests["p2"]
