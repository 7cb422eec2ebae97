"""A limit allows what its words say, and refuses the rest with them."""

from typing import Any, Literal

import numpy as np
import pytest

from fedforest.errors import ConfigurationError
from fedforest.limits import (
    FRACTION,
    NOTHING,
    SWITCH,
    Limit,
    count_or_fraction,
    made_by,
    number,
    one_of,
    read_memory,
    whole,
)


@pytest.mark.parametrize(
    ("limit", "allowed", "refused"),
    [
        (one_of(Literal["a", "b"]), ["a", "b"], ["c", None, 1, ["a"], np.array(["a", "b"])]),
        (whole(2), [2, np.int64(7)], [1, 2.0, True, None, "2"]),
        (whole(2, 5), [2, 5], [1, 6]),
        (number("x", 0.0, 0.5), [0, 0.5, np.float32(0.25)], [-1e-9, 0.51, float("nan"), False]),
        (FRACTION, [1, 1.0, 1e-9, np.float32(0.5)], [0, 0.0, 1.5, True, float("nan")]),
        (count_or_fraction(2), [2, 0.5, 1.0], [1, 0, 1.5, 0.0, True]),
        (SWITCH, [True, False, np.True_], [0, 1, None, "yes"]),
        (made_by(dict, "a dict"), [{}], [dict, None]),
        (NOTHING, [None], [0, ""]),
        (NOTHING | whole(1), [None, 1], [0, "None"]),
    ],
)
def test_a_limit_allows_these_and_refuses_those(
    limit: Limit, allowed: list[Any], refused: list[Any]
) -> None:
    assert [value for value in allowed if not limit.allows(value)] == []
    assert [value for value in refused if limit.allows(value)] == []


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (one_of(Literal["a", "b", "c"]), "'a', 'b' or 'c'"),
        (whole(2), "a whole number of at least 2"),
        (whole(2, 5), "a whole number from 2 to 5"),
        (
            NOTHING | count_or_fraction(1),
            "None, a whole number of at least 1 or a fraction above 0 and up to 1",
        ),
    ],
)
def test_a_refusal_names_the_parameter_and_all_that_is_allowed(limit: Limit, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        limit.check("depth", -3)
    assert str(caught.value) == f"depth is -3; it must be {text}."
    assert caught.value.key == ("depth",)


def test_memory_is_written_with_its_unit() -> None:
    assert read_memory("") is None
    assert read_memory("800 MB") == 800 * 10**6
    assert read_memory("1.5GB") == 1_500_000_000
    for text in ("4", "4 gb", "0.5 MB", "-1 GB", "4 GB ", "1e3 MB"):
        with pytest.raises(ConfigurationError, match="800 MB"):
            read_memory(text)
