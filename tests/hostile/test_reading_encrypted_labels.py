"""A coordinator that wants to read encrypted labels, or the columns of those who sum them.

It is played against real parties behind their gates: an honest coordinator's requests and replies
pass through its hands, and it changes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest

from fedforest.errors import FederationError
from fedforest.masking.homomorphic.keys import DecryptionKey
from fedforest.masking.homomorphic.scheme import Scheme
from fedforest.masking.homomorphic.summands import Summands
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.encrypted.messages import (
    REQUESTS,
    ApplyCuts,
    ChooseCuts,
    JudgeChildren,
    TakeCiphertexts,
)
from fedforest.protocol.vertical.encrypted.payloads import (
    CutChoice,
    EncryptedCuts,
    EncryptedLabels,
)
from fedforest.transport.base import Transport
from fedforest.transport.codec import decode, encode
from tests.protocol.vertical.cases import VerticalCase
from tests.protocol.vertical.encrypted_trainings import train_encryptedly

N_ROWS = 80
Change = Callable[[str, Any], Any]
Offers = tuple[EncryptedCuts, ...]


def case() -> VerticalCase:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {f"c{k}": rng.standard_normal(N_ROWS) for k in range(4)}
    y = (columns["c0"] + columns["c3"] > 0).astype(np.int64)
    parameters = {"n_estimators": 2, "max_bins": 8, "max_features": None, "bootstrap": False}
    return VerticalCase(columns, y, None, parameters, (1, 1, 2), label_party=1)


@dataclass
class LyingCoordinator:
    """Changes requests on their way to the parties."""

    inner: Transport
    change: Change
    n_changed: int = field(default=0)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        return self.inner.exchange(
            {party: self._lie(party, data) for party, data in requests.items()}, may_lose=may_lose
        )

    def _lie(self, party: str, data: bytes) -> bytes:
        request = decode(data, REQUESTS)
        changed = self.change(party, request)
        self.n_changed += changed is not request
        return data if changed is request else encode(changed)


def assert_refused(change: Change, reason: str, of: VerticalCase | None = None) -> None:
    liars: list[LyingCoordinator] = []

    def wrap(transport: Transport) -> Transport:
        liars.append(LyingCoordinator(transport, change))
        return liars[0]

    with pytest.raises(FederationError, match=reason):
        train_encryptedly(of or case(), wrap=wrap)
    assert liars[0].n_changed > 0


def own_labels(labels: EncryptedLabels) -> EncryptedLabels:
    """Marks of the rows by which the coordinator would read a column, under a key of its own."""
    summands = Summands(labels.n_numbers, labels.lowest, labels.highest, N_ROWS)
    public = DecryptionKey(b"c" * 32, summands.n_keys).public
    marks = (np.arange(N_ROWS) < 10).astype(np.int64)[:, None]
    rows = Scheme(summands, public).encrypt(marks, b"d" * 32)
    key, ciphertexts = memoryview(public.encode()), memoryview(rows.tobytes())
    return msgspec.structs.replace(labels, key=key, ciphertexts=ciphertexts)


def test_a_key_of_the_coordinators_own_does_not_read_columns() -> None:
    def change(_: str, request: Any) -> Any:
        if not isinstance(request, TakeCiphertexts):
            return request
        return TakeCiphertexts(own_labels(request.labels), request.seal)

    assert_refused(change, "sealed")


def test_ciphertexts_under_the_right_key_but_of_other_rows_are_refused() -> None:
    def change(_: str, request: Any) -> Any:
        if not isinstance(request, TakeCiphertexts):
            return request
        turned = bytes(request.labels.ciphertexts)
        turned = turned[64:] + turned[:64]
        labels = msgspec.structs.replace(request.labels, ciphertexts=memoryview(turned))
        return TakeCiphertexts(labels, request.seal)

    assert_refused(change, "sealed")


def change_offers(
    change: Callable[[Offers], Offers],
) -> Change:
    def change_request(_: str, request: Any) -> Any:
        if not isinstance(request, ChooseCuts):
            return request
        return msgspec.structs.replace(request, offers=change(request.offers))

    return change_request


def test_cuts_of_single_rows_do_not_read_labels_by_what_is_chosen() -> None:
    """Ciphertexts of rows, which the coordinator has, in place of the sums of a party."""

    def change(offers: Offers) -> Offers:
        first = bytes(offers[0].sums)
        return (EncryptedCuts(offers[0].counts, memoryview(first[64:] + first[:64])), *offers[1:])

    assert_refused(change_offers(change), "sealed")


@pytest.mark.parametrize("at", [0, 31, 40, 63])
def test_one_changed_byte_of_a_sum_is_refused_and_never_a_wrong_tree(at: int) -> None:
    def change(offers: Offers) -> Offers:
        spoiled = bytearray(offers[0].sums)
        spoiled[at] ^= 1
        return (EncryptedCuts(offers[0].counts, memoryview(bytes(spoiled))), *offers[1:])

    assert_refused(change_offers(change), "sealed")


def test_cuts_of_an_earlier_step_are_not_decrypted_again() -> None:
    earlier: list[Offers] = []

    def change(offers: Offers) -> Offers:
        earlier.append(offers)
        return earlier[0]

    assert_refused(change_offers(change), "sealed")


def test_the_cuts_of_one_party_are_not_taken_for_those_of_another() -> None:
    assert_refused(change_offers(lambda offers: offers[::-1]), "sealed")


def words_case() -> VerticalCase:
    """The others have one column of words each, whose rarest word is in one row."""
    rng = np.random.default_rng(3)
    words = np.array([*rng.choice(["a", "b", "c", "d"], N_ROWS - 1), "rare"], object)
    columns: dict[str, Any] = {f"w{k}": rng.permutation(words) for k in range(3)}
    y = np.isin(columns["w2"], ["a", "c"]).astype(np.int64)
    parameters = {"n_estimators": 1, "max_features": None, "min_samples_leaf": 5, "max_depth": 2}
    return VerticalCase(columns, y, None, parameters, (1, 1, 1), label_party=1)


@pytest.mark.parametrize("left", [[4], [0, 1, 2, 3], [0, 1, 2, 3, 4], [], [0, 0], [5]])
def test_no_word_of_few_rows_is_told_apart_by_choosing_it(left: list[int]) -> None:
    """The rare word alone, all but it, all, none, one twice, or one that there is not."""

    def change(party: str, request: Any) -> Any:
        if party != "p2" or not isinstance(request, ApplyCuts):
            return request
        positions = [np.array(left, np.int64)]
        return ApplyCuts(CutChoice.of(np.ones(1, np.bool_), positions))

    assert_refused(
        change, "divided that cannot be|a chosen cut is none|more cuts are chosen", words_case()
    )


def test_other_bits_than_the_winners_do_not_make_a_wrong_tree() -> None:
    """The label party compares what rows add up to with the sums that it chose by."""

    def change(_: str, request: Any) -> Any:
        if not isinstance(request, JudgeChildren) or not len(request.bits.data):
            return request
        bits = np.frombuffer(request.bits.data, np.uint8).copy()
        bits[0] ^= 255
        return JudgeChildren(RowBits.of(bits), request.left_out_bits)

    assert_refused(change, "rows")
