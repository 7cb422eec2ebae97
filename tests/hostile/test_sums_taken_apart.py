"""A coordinator that wants one party's own numbers out of sums over parties.

Masks, rings and shares are real, and so are the parties. Each of these succeeded, to the exact
count, against parties that looked only at the sums they were in themselves.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from fedforest.errors import MaskingError, ProtocolError
from fedforest.kernels.sums.prime_field import PRIME
from fedforest.protocol.aggregation.messages import CountMasked, Part, ShareOut
from fedforest.protocol.aggregation.options import Masked, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.asking import Message
from fedforest.protocol.horizontal.messages import AgreeOnTable, CutMoves, ProposeThresholds
from tests.hostile.steered_federation import (
    N_CLASSES,
    PLUGS,
    Steer,
    SteeredFederation,
    draw_tables,
)
from tests.protocol.horizontal.asking_one import ask_cuts, pack_candidates, split_all

every_plug = pytest.mark.parametrize("plug", PLUGS, ids=repr)
BELOW, ABOVE = -100.0, 100.0  # no row is beyond


def assert_no_sum(federation: SteeredFederation, parties: str, *question: Any) -> None:
    """Masks do not cancel, or a seal does not open: the step ends by name and nothing is told."""
    with pytest.raises((MaskingError, ProtocolError)):
        federation.count(parties, *question)


def count_roots(plug: Plug, blocks: Sequence[str], **options: Any) -> NDArray[np.int64]:
    """What the roots of one tree of all parties add up to."""
    federation = SteeredFederation(plug, blocks, **options)
    parties = "".join(blocks)
    federation.start_one(parties)
    return federation.count(parties)


def tell_others(victim: str, kind: type[Message], change: Any) -> Steer:
    """Tell everybody but one party something else."""

    def steer(party: str, request: Message) -> Message:
        is_told = isinstance(request, kind) and party != victim
        told: Message = change(request) if is_told else request
        return told

    return steer


@every_plug
def test_honest_sums_are_exact(plug: Plug) -> None:
    """What the attacks below start from."""
    federation = SteeredFederation(plug, ["ab", "cd"])
    assert federation.count_tables("abcd")[0].tolist() == add_up(federation, "abcd")
    federation.start_one("abcd")
    federation.move("abcd", split_all([0], [0.0]), 2)
    left = sum(
        np.bincount(y[X[:, 0] <= 0.0], minlength=N_CLASSES) for X, y in federation.tables.values()
    )
    counted = federation.count("abcd", [np.nan] * 4, [True, True])
    assert counted[0].tolist() == np.asarray(left).tolist()
    assert counted.sum(axis=0).tolist() == add_up(federation, "abcd")


def add_up(federation: SteeredFederation, parties: str) -> list[int]:
    total: list[int] = np.sum([federation.truth(party) for party in parties], axis=0).tolist()
    return total


@every_plug
def test_the_same_question_without_one_party_is_not_answered(plug: Plug) -> None:
    """The difference would be its counts, in another tree or batch as in the same one."""
    federation = SteeredFederation(plug, ["ab", "cd"], agreed={"n_trees": 9})
    federation.start_one("abcd")
    federation.count("abcd")
    for segment in (0, 1):
        federation.start_one("abcd", segment=segment)
        with pytest.raises(ProtocolError, match="part of a block"):
            federation.count("abc", segment=segment)
        assert federation.count("ab", segment=segment).tolist() == [add_up(federation, "ab")]


@every_plug
def test_sets_that_no_party_sees_together_do_not_give_one_party_s_counts(plug: Plug) -> None:
    """Over {a,b,c,d,e}, {b,c} and {d,e}: a is in one sum, and so is every other pair in two."""
    for blocks in (["abc", "de"], ["bc", "ade"], ["abcde"]):
        federation = SteeredFederation(plug, blocks)
        answered = []
        for parties in ("abcde", "bc", "de"):
            federation.start_one(parties)
            try:
                federation.count(parties)
            except ProtocolError:
                continue
            answered.append(parties)
        assert answered in (["abcde"], ["abcde", "bc"], ["abcde", "de"])
    with pytest.raises(ProtocolError, match="fewer than 2 parties with rows"):
        SteeredFederation(plug, ["a", "bc", "de"])


@every_plug
def test_whole_tables_are_not_counted_without_one_party(plug: Plug) -> None:
    federation = SteeredFederation(plug, ["ab", "cd"])
    with pytest.raises(ProtocolError, match="part of a block"):
        federation.count_tables("abc")


@every_plug
def test_restarts_in_which_nobody_is_lost_do_not_let_a_party_come_and_go(plug: Plug) -> None:
    """600 restarts over {a,b,c,d} and {a,b,c} in turn averaged to d's counts."""
    federation = SteeredFederation(plug, ["ab", "cd"], agreed={"n_trees": 1, "most_losses": 600})
    federation.start_one("abcd")
    federation.count("abcd")
    with pytest.raises(ProtocolError, match="more trees are asked for"):
        federation.start_one("abcd")  # nobody was lost: not a restart
    federation.start_one("ab", left=(1,))
    with pytest.raises(ProtocolError, match="left the run takes part"):
        federation.count("abcd")
    for left in ((), (0,)):
        with pytest.raises(ProtocolError, match="left the run"):
            federation.start_one("ab", left=left)
    with pytest.raises(ProtocolError, match="more trees are asked for"):
        federation.start_one("ab", left=(1,))
    with pytest.raises(ProtocolError, match="no such block"):
        federation.start_one("ab", left=(1, 2))


@every_plug
def test_a_party_that_is_called_lost_takes_its_companions_along(plug: Plug) -> None:
    """What is left differs by a whole block, in every node."""
    federation = SteeredFederation(plug, ["ab", "cd", "ef"])
    federation.start_one("abcdef")
    before = federation.count("abcdef")[0]
    federation.start_one("abef", left=(1,))
    for parties in ("abcef", "abdef"):
        with pytest.raises(ProtocolError, match="left the run takes part"):
            federation.count(parties)
    after = federation.count("abef")[0]
    assert (before - after).tolist() == add_up(federation, "cd")


@every_plug
def test_a_step_is_not_repeated_with_other_participants(plug: Plug) -> None:
    federation = SteeredFederation(plug, ["ab", "cd"])
    federation.start_one("abcd")
    federation.count("abcd")
    federation.step -= 1
    with pytest.raises(ProtocolError, match=r"other participants|another request under step"):
        federation.count("ab")
    with pytest.raises(ProtocolError, match="counted by other participants than before"):
        federation.count("ab")


@pytest.mark.parametrize("scope", ["tree", "run"])
@every_plug
def test_single_parties_are_not_drawn_where_another_scope_was_declared(
    plug: Plug, scope: Any
) -> None:
    with pytest.raises(ProtocolError, match="fewer than 2 parties with rows"):
        SteeredFederation(plug, [*"abcd"], scope=scope)


@every_plug
def test_a_run_that_keeps_its_participants_is_not_counted_by_others_in_another_tree(
    plug: Plug,
) -> None:
    federation = SteeredFederation(plug, ["ab", "cd"], scope="run")
    federation.start_one("abcd")
    federation.count("abcd")
    federation.start_one("ab")
    with pytest.raises(ProtocolError, match="a run is counted by other participants"):
        federation.count("ab")


def other_agreements() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "blocks", {"blocks": (("a", "b", "c"), ("d", "e"))}
    yield "order of blocks", {"blocks": (("c", "d", "e"), ("a", "b"))}
    yield "order of classes", {"classes": (1, 0)}
    yield "further classes", {"classes": (0, 1, 2)}
    yield "unit of weights", {"weight_unit": 2.0, "rows_apart": True}
    yield "limits", {"least_rows": 30}


@pytest.mark.parametrize(
    "changes", [pytest.param(changes, id=name) for name, changes in other_agreements()]
)
@every_plug
def test_parties_that_were_told_different_agreements_share_no_keys(
    plug: Plug, changes: dict[str, Any]
) -> None:
    """Two lists of blocks, or classes in another order at all but one party."""
    steer = tell_others("a", AgreeOnTable, lambda told: structs.replace(told, **changes))
    with pytest.raises((MaskingError, ProtocolError)):
        count_roots(plug, ["ab", "cde"], steer=steer)


@every_plug
def test_a_unit_that_makes_the_others_targets_vanish_gives_no_sum(plug: Plug) -> None:
    """What remained was the victim's own sum of targets."""
    tables = {name: (X, y * 1.0) for name, (X, y) in draw_tables("abcd").items()}
    scales = {"class_dtype": "", "classes": ()}
    steer = tell_others("a", AgreeOnTable, lambda told: structs.replace(told, target_unit=1e9))
    with pytest.raises((MaskingError, ProtocolError)):
        count_roots(plug, ["ab", "cd"], tables=tables, agreed=scales, steer=steer)
    count_roots(plug, ["ab", "cd"], tables=tables, agreed=scales)


@every_plug
def test_parties_with_other_roles_share_no_keys(plug: Plug) -> None:
    """A label column of one value at the others would leave the victim's own other classes."""
    declared = dict.fromkeys("bcd", b"label: constant") | {"a": b"label: outcome"}
    with pytest.raises((MaskingError, ProtocolError)):
        count_roots(plug, ["ab", "cd"], declared=declared)
    count_roots(plug, ["ab", "cd"], declared=dict.fromkeys("abcd", b"label: outcome"))


@every_plug
def test_rows_of_the_others_are_not_moved_out_of_a_node(plug: Plug) -> None:
    """Splits told differently: the left child has rows of the victim alone."""

    def move_away(request: ProposeThresholds) -> Message:
        if request.moves is None:
            return request
        return structs.replace(request, moves=split_all([0], [BELOW]))

    steer = tell_others("a", ProposeThresholds, move_away)
    federation = SteeredFederation(plug, ["ab", "cd"], steer=steer)
    federation.start_one("abcd")
    federation.count("abcd")
    federation.move("abcd", split_all([0], [ABOVE]), 2)
    assert_no_sum(federation, "abcd", [np.nan] * 4, [True, False])


def test_nodes_of_the_others_are_not_closed_or_exchanged() -> None:
    """Fates, columns and sides of missing values are bound to keys as thresholds are."""
    honest = split_all([0], [0.0])
    others: list[CutMoves] = [
        structs.replace(honest, feature=memoryview(np.array([1], "<i4").tobytes())),
        structs.replace(honest, missing_left=memoryview(b"\1")),
        structs.replace(honest, threshold=memoryview(np.array([0.5], "<f4").tobytes())),
    ]
    for moves in others:

        def move(request: ProposeThresholds, moves: CutMoves = moves) -> Message:
            return request if request.moves is None else structs.replace(request, moves=moves)

        steer = tell_others("a", ProposeThresholds, move)
        federation = SteeredFederation(Masked(), ["ab", "cd"], steer=steer)
        federation.start_one("abcd")
        federation.move("abcd", honest, 2)
        assert_no_sum(federation, "abcd", [np.nan] * 4, [True, False])


@every_plug
def test_the_others_do_not_draw_fewer_rows(plug: Plug) -> None:
    """From a party that drew one row the victim would have nothing to hide behind."""

    def draw_less(request: ProposeThresholds) -> Message:
        assert request.start is not None
        return structs.replace(request, start=structs.replace(request.start, n_rows=30))

    federation = SteeredFederation(
        plug, ["ab", "cd"], steer=tell_others("a", ProposeThresholds, draw_less)
    )
    federation.start_one("abcd")
    assert_no_sum(federation, "abcd")


@every_plug
def test_candidates_of_the_others_are_not_exchanged(plug: Plug) -> None:
    """A threshold of one column would be read as one of another, where no row is below it."""

    def exchange(request: ProposeThresholds) -> Message:
        return structs.replace(request, candidates=pack_candidates([[1]], 2))

    federation = SteeredFederation(
        plug, ["ab", "cd"], steer=tell_others("a", ProposeThresholds, exchange)
    )
    federation.start_one("abcd", columns=[0])
    assert_no_sum(federation, "abcd", [0.0], [False])


@every_plug
def test_trees_of_the_others_are_not_exchanged(plug: Plug) -> None:
    """A party that grows two trees under one number would be asked about the nodes of both."""
    federation = SteeredFederation(plug, ["ab", "cd"])
    federation.start({"a": [0], "b": [0, 0], "c": [0], "d": [0]})
    assert_no_sum(federation, "abcd")


@every_plug
def test_a_party_without_rows_hides_nobody(plug: Plug) -> None:
    """Neither as a companion that nobody knows to be empty, nor told of to some parties only."""
    tables = draw_tables("abcd")
    tables["b"] = (np.zeros((0, 2)), np.zeros(0, np.int64))
    with pytest.raises(ProtocolError, match="not as it declared"):
        SteeredFederation(plug, ["ab", "cd"], tables=tables)
    with pytest.raises(ProtocolError, match="fewer than 2 parties with rows"):
        SteeredFederation(plug, ["ab", "cd"], tables=tables, agreed={"without_rows": ("b",)})

    def hush(party: str, request: Message) -> Message:
        is_empty = party == "b" or not isinstance(request, AgreeOnTable)
        return request if is_empty else structs.replace(request, without_rows=())

    with pytest.raises(ProtocolError, match="fewer than 2 parties with rows"):
        SteeredFederation(
            plug, ["ab", "cd"], tables=tables, agreed={"without_rows": ("b",)}, steer=hush
        )
    federation = SteeredFederation(plug, ["abcd"], tables=tables, agreed={"without_rows": ("b",)})
    federation.start_one("abcd")
    assert federation.count("abcd").tolist() == [add_up(federation, "acd")]


@every_plug
def test_parties_that_do_not_exist_hide_nobody(plug: Plug) -> None:
    """Companions that are made up are in no sum, and their blocks in none without them."""
    blocks = (("a", "x"), ("b", "y"), ("c", "d"))
    federation = SteeredFederation(plug, ["ab", "cd"], agreed={"blocks": blocks})
    federation.start_one("abcd")
    for parties in ("abcd", "acd"):
        with pytest.raises(ProtocolError, match="part of a block"):
            federation.count(parties)

    def name_all(_: str, request: Any) -> Message:
        part = structs.replace(request.parts[0], participants=("a", "x", "c", "d"))
        named: Message = structs.replace(request, parts=(part,))
        return named

    federation.steer = name_all
    with pytest.raises(ProtocolError, match="a participant is a stranger"):
        federation.count("acd")


def answer_anew(plug: Plug, cut: float, asked: float) -> tuple[Any, NDArray[np.int64]]:
    """What b says in the third step of a run, and its plain counts; its secrets repeat themselves.

    As after it was restored from an old copy: everything before the split by `cut` is the same.
    """
    federation = SteeredFederation(plug, ["ab", "cd"])
    federation.start_one("abcd")
    moves, bitmap = split_all([0], [cut]), pack_candidates([[0, 1]] * 2, 2)
    party = federation.parties["b"]
    party.handle(ProposeThresholds(2, None, moves, bitmap))
    question = ask_cuts([asked, np.nan, asked, np.nan], [True, True])
    counts: type[Any] = CountMasked if isinstance(plug, Masked) else ShareOut
    reply = party.handle(counts(3, (Part(tuple("abcd"), question),)))
    return reply, party.answers[bytes(question)]


PASTS = [(-0.5, 0.1), (0.5, 0.1), (0.5, 0.2)]  # other splits, then another question
TWO_PASTS = pytest.mark.parametrize(("first", "second"), list(combinations(PASTS, 2)))


def test_a_party_that_is_restored_answers_the_same_request_alike() -> None:
    """Or the two tests below would show nothing."""
    [one, other] = [answer_anew(Masked(), *PASTS[0])[0].sums.data for _ in range(2)]
    assert one == other


@TWO_PASTS
def test_a_party_that_is_restored_repeats_no_mask_on_another_question(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    """Nor on the same bytes after other splits: the difference would be bare counts."""
    masks = []
    for past in (first, second):
        reply, plain = answer_anew(Masked(), *past)
        masks.append(np.frombuffer(reply.sums.data, "<u8") - plain.view(np.uint64))
    assert not np.isin(masks[0], masks[1]).any()


@TWO_PASTS
def test_a_party_that_is_restored_repeats_no_shares_on_another_question(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    """Polynomials with the same coefficients would differ by bare counts at the coordinator."""
    coefficients = []
    for past in (first, second):
        reply, plain = answer_anew(Shamir(2), *past)
        share = reply.opened[0].read(len(plain)).astype(object)
        coefficients.append((share - plain.astype(object)) % PRIME)
    assert not np.isin(coefficients[0], coefficients[1]).any()


def test_what_remains_are_two_runs_of_which_one_lacks_a_party() -> None:
    """Parties do not hold runs against each other; the leakage report says so."""
    tables = draw_tables("abcd")
    everybody = count_roots(Masked(), ["abcd"], tables=tables)
    others = {party: tables[party] for party in "abc"}
    without_d = count_roots(Masked(), ["abc"], tables=others)
    secret = np.bincount(tables["d"][1], minlength=N_CLASSES)
    assert (everybody - without_d).tolist() == [secret.tolist()]
