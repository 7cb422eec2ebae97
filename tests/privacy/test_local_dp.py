"""LocalDP: settings that are refused, responses that never change, sums that stay in range."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone

from fedforest.errors import ConfigurationError, DataError, PrivacyError
from fedforest.privacy.local_dp import (
    LocalDP,
    ResponseCode,
    cap_of,
    choose_keep,
    permanent_responses,
    respond_instantly,
)

KEY = bytes(range(32))
KEPT: dict[str, Any] = {"keep": 0.9}
IDS = np.arange(1000, dtype=np.uint64)
LABELS = (np.arange(1000) % 3).astype(np.uint16)


def code_of(n_classes: int = 3, meaning: bytes = b"", **settings: Any) -> ResponseCode:
    return LocalDP(**KEPT | settings).resolve(n_classes, meaning)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"keep": 0.0}, "keep must be above 0"),
        ({"keep": 1.0}, "keep must be above 0"),
        ({"keep": -0.1}, "keep must be above 0"),
        ({"keep": 1.5}, "keep must be above 0"),
        ({"keep": float("nan")}, "keep must be a probability"),
        ({"keep": "0.9"}, "keep must be a probability"),
        ({"keep": None}, "needs epsilon, the guarantee of the whole training"),
        ({"p": True}, "p must be a probability"),
        ({"p": 1.01}, "between 0 and 1"),
        ({"q": -0.01}, "between 0 and 1"),
        ({"p": 0.1, "q": 0.9}, "p must be larger than q"),
        ({"p": 0.5, "q": 0.5}, "p must be larger than q"),
        ({"keep": 1e-9}, "all noise"),
        ({"p": 0.5, "q": 0.49999999}, "all noise"),
        ({"hashes": 0}, "hashes must be"),
        ({"hashes": 1.5}, "hashes must be"),
        ({"hashes": True}, "hashes must be"),
        ({"hashes": 65}, "no more hashes"),
        ({"bits": 2, "hashes": 3}, "from hashes=3 to 64"),
        ({"bits": 65}, "from hashes=1 to 64"),
        ({"bits": 0}, "from hashes=1 to 64"),
        ({"bits": 8.0}, "from hashes=1 to 64"),
        ({"bits": True}, "from hashes=1 to 64"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        LocalDP(**KEPT | settings).check()
    with pytest.raises(ValueError, match=reason):
        LocalDP(**KEPT | settings).resolve(2)


@pytest.mark.parametrize(
    "settings",
    [{}, {"p": 1.0, "q": 0.0}, {"q": 0.0}, {"bits": 64, "hashes": 4}, {"keep": np.float32(0.5)}],
)
def test_usable_settings_pass(settings: dict[str, Any]) -> None:
    LocalDP(**KEPT | settings).check()


@pytest.mark.parametrize("numbers", [(2.0,), (10, 2), (None,)])
def test_a_number_without_a_name_is_refused(numbers: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"LocalDP\(epsilon=2.0\) guarantees"):
        LocalDP(*numbers)


@pytest.mark.parametrize("settings", [{"p": 0.8}, {"hashes": 2}, {"keep": 0.9, "epsilon": 2.0}])
def test_epsilon_or_keep_is_given_and_not_both(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"epsilon.*keep"):
        LocalDP(**settings).check()


@given(
    st.floats(0.01, 100.0),
    st.integers(1, 30),
    st.sampled_from([{}, {"hashes": 2}, {"hashes": 3, "bits": 40}, {"bits": 40}]),
)
def test_epsilon_is_the_cap_whatever_the_code(
    epsilon: float, n_classes: int, shape: dict[str, int]
) -> None:
    code = LocalDP(epsilon=epsilon, **shape).resolve(n_classes)
    assert code.cap <= epsilon
    if n_classes > 1 and epsilon < 30.0:
        assert code.cap == pytest.approx(epsilon, rel=1e-4)  # finer, but for tiny epsilons


@given(st.floats(0.001, 100.0), st.integers(2, 6))
def test_keep_is_found_in_steps_that_every_machine_has(epsilon: float, distance: int) -> None:
    keep = choose_keep(epsilon, distance)
    assert keep * 2**32 == int(keep * 2**32)
    assert cap_of(keep, distance) <= epsilon
    assert keep == pytest.approx(math.tanh(epsilon / (2 * distance)), abs=2**-31)


def test_the_epsilon_of_one_setting_is_pinned() -> None:
    # permanent responses depend on every bit of it: another number would be new noise
    assert LocalDP(epsilon=2.0).resolve(2).keep.hex() == "0x1.d9353d7400000p-2"


def test_settings_are_shown_copied_and_stored_as_they_were_given() -> None:
    settings = LocalDP(epsilon=2.0, p=0.75)
    assert repr(settings) == "LocalDP(epsilon=2.0, p=0.75)"
    assert eval(repr(settings)) == settings
    stored = pickle.loads(pickle.dumps(settings))
    for copied in (copy.deepcopy(settings), stored, clone(settings, safe=False)):
        assert copied == settings


def test_regression_is_refused_and_pointed_to_global_privacy() -> None:
    with pytest.raises(ConfigurationError, match=r"classification only.*GlobalDP"):
        LocalDP(keep=0.9).check(is_regression=True)


def test_rates_are_those_of_both_layers_together() -> None:
    code = code_of(keep=0.8, p=0.75, q=0.25)
    assert code.rate_if_set == pytest.approx(0.9 * 0.75 + 0.1 * 0.25)
    assert code.rate_if_clear == pytest.approx(0.1 * 0.75 + 0.9 * 0.25)


def test_the_same_row_and_label_give_the_same_response_for_ever() -> None:
    code = code_of()
    once = permanent_responses(code, LABELS, IDS, KEY)
    assert permanent_responses(code, LABELS, IDS, KEY).tolist() == once.tolist()
    order = np.random.default_rng(0).permutation(1000)[:77]
    some = permanent_responses(code, LABELS[order], IDS[order], KEY)
    assert some.tolist() == once[order].tolist()


def test_responses_never_change_between_releases() -> None:
    code = code_of(2)
    labels = np.array([0, 1, 0, 1, 0, 1, 0, 1], np.uint16)
    pinned = [1, 2, 1, 0, 3, 2, 1, 2]
    assert permanent_responses(code, labels, IDS[:8] << np.uint64(33), KEY).tolist() == pinned


def coins(code: ResponseCode, labels: Any, ids: Any, key: bytes) -> Any:
    """The bits that are turned."""
    words = np.array(code.words, np.uint64)
    return permanent_responses(code, labels, ids, key) ^ words[labels]


PLAIN: dict[str, Any] = {"bits": 16, "keep": 0.2}
OTHER_LABELS = ((LABELS + 1) % 3).astype(np.uint16)


@pytest.mark.parametrize(
    ("code", "labels", "ids", "key"),
    [
        (code_of(**PLAIN), LABELS, IDS, bytes(32)),
        (code_of(**PLAIN), OTHER_LABELS, IDS, KEY),
        (code_of(**PLAIN), LABELS, IDS + np.uint64(1 << 40), KEY),
        (code_of(**PLAIN | {"keep": 0.21}), LABELS, IDS, KEY),
        (code_of(**PLAIN | {"bits": 17}), LABELS, IDS, KEY),
        (code_of(**PLAIN, hashes=2), LABELS, IDS, KEY),
        (code_of(4, **PLAIN), LABELS, IDS, KEY),
        (code_of(3, b"other classes", **PLAIN), LABELS, IDS, KEY),
    ],
    ids=["key", "label", "row", "keep", "bits", "hashes", "classes", "meaning"],
)
def test_another_of_these_means_unrelated_coins(
    code: ResponseCode, labels: Any, ids: Any, key: bytes
) -> None:
    mine = coins(code_of(**PLAIN), LABELS, IDS, KEY)
    others = coins(code, labels, ids, key) & np.uint64(2**16 - 1)
    # 16 bits, each turned at 0.4: in common as many as by chance; 0.3 is five deviations
    assert np.bitwise_count(mine).mean() == pytest.approx(16 * 0.4, abs=0.4)
    assert np.bitwise_count(others).mean() == pytest.approx(16 * 0.4, abs=0.4)
    assert np.bitwise_count(mine & others).mean() == pytest.approx(16 * 0.16, abs=0.3)


def test_other_instant_probabilities_keep_the_permanent_coins() -> None:
    # or the cap would have to be paid again for the same rows
    other = permanent_responses(code_of(p=0.7, q=0.2), LABELS, IDS, KEY)
    assert other.tolist() == permanent_responses(code_of(), LABELS, IDS, KEY).tolist()
    assert code_of(p=0.7).memory(KEY) == code_of().memory(KEY)


def test_a_memory_is_named_by_key_and_parameters_and_does_not_show_the_key() -> None:
    names = {
        code.memory(key)
        for code in (code_of(), code_of(keep=0.8), code_of(2), code_of(3, b"others"))
        for key in (KEY, bytes(32))
    }
    assert len(names) == 8
    assert not any(KEY.hex()[:8] in name for name in names)


def test_no_rows_have_no_responses() -> None:
    nothing = permanent_responses(code_of(), LABELS[:0], IDS[:0], KEY)
    assert nothing.shape == (0,)
    assert nothing.dtype == np.uint64


@pytest.mark.parametrize(
    ("labels", "ids", "key", "error", "reason"),
    [
        (LABELS[:5], IDS[:4], KEY, DataError, "5 labels for 4 rows"),
        (LABELS[:4] + 1, IDS[:4], KEY, DataError, "not among the 3 classes"),
        (LABELS[:4], IDS[:4] // 2, KEY, DataError, "same id"),
        (LABELS[:4], IDS[:4], KEY[:16], PrivacyError, "32 bytes"),
    ],
)
def test_rows_that_would_break_the_promise_are_refused(
    labels: Any, ids: Any, key: bytes, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        permanent_responses(code_of(), labels.astype(np.uint16), ids, key)


def respond(sums: Any, key: bytes = KEY, number: int = 0) -> NDArray[np.int64]:
    noisy = np.array(sums, np.int64)
    respond_instantly(code_of(), noisy, key, number)
    return noisy


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=20), st.data())
@settings(max_examples=30)
def test_noisy_sums_stay_between_zero_and_the_number_of_rows(
    sizes: list[int], data: st.DataObject
) -> None:
    sums = [[*(data.draw(st.integers(0, size)) for _ in range(3)), size] for size in sizes]
    noisy = respond(sums)
    assert (noisy >= 0).all()
    assert (noisy[:, :-1] <= noisy[:, -1:]).all()
    assert noisy[:, -1].tolist() == sizes


def test_instant_responses_repeat_under_their_key_and_change_with_it_and_with_the_number() -> None:
    sums = [[500, 500, 500, 1000]] * 50
    once = respond(sums)
    assert (respond(sums) == once).all()
    for other in (respond(sums, bytes(32)), respond(sums, KEY, 1)):
        assert (other[:, :-1] != once[:, :-1]).mean() > 0.9


@pytest.mark.parametrize("sums", [[[0, 0, 5]], [[6, 0, 0, 5]], [[-1, 0, 0, 5]], [0, 0, 0, 5]])
def test_sums_that_no_rows_can_have_are_refused(sums: Any) -> None:
    with pytest.raises(PrivacyError):
        respond(sums)
