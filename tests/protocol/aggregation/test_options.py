"""What users may choose."""

from typing import Any

import numpy as np
import pytest

from fedforest.errors import ConfigurationError
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir


@pytest.mark.parametrize("k", [None, 1, 4, np.int64(2)])
def test_as_many_peers_as_there_are_other_parties_can_be_chosen(k: Any) -> None:
    Masked(k).check(5)


@pytest.mark.parametrize("k", [0, -1, 5, 100, 2.0, True, "2", np.nan, [2]])
def test_peers_that_cannot_be_are_refused(k: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Masked\(k=.*from 1 to 4"):
        Masked(k).check(5)


@pytest.mark.parametrize("threshold", [2, 3, 6, np.int32(4)])
def test_all_holders_of_shares_can_be_made_necessary(threshold: Any) -> None:
    Shamir(threshold).check(5)


@pytest.mark.parametrize("threshold", [0, 1, 7, -2, 2.0, True, None, "2"])
def test_thresholds_that_cannot_be_are_refused(threshold: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Shamir\(threshold=.*from 2 to 6"):
        Shamir(threshold).check(5)


@pytest.mark.parametrize("option", [Masked(), Masked(1), Ring(), Shamir(2)], ids=str)
@pytest.mark.parametrize("n_parties", [0, 1])
def test_nothing_protects_the_sum_over_one_party(option: Any, n_parties: int) -> None:
    with pytest.raises(ConfigurationError, match="nobody to hide among"):
        option.check(n_parties)
    option.check(2)


def test_options_are_values() -> None:
    assert Masked(3) == Masked(k=3) != Masked()
    assert Ring() == Ring()
    assert repr(Shamir(threshold=3)) == "Shamir(threshold=3)"
    assert len({Masked(), Masked(), Ring(), Shamir(2)}) == 3
