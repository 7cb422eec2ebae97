"""What a party keeps after a training: the forest, and none of the rows in the form of the run."""

import gc
from collections.abc import Iterator
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.messages import TakeForest
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.protocol.horizontal.party.trees import HorizontalPartyTrees
from tests.protocol.horizontal.asking_one import AskedParty, start_trees
from tests.protocol.horizontal.federations import Shares, train_openly
from tests.tree.grown_forests import assert_same_arrays

PLUGS: list[Plug] = ["plain", Masked(), Ring(), Shamir(threshold=2)]


class WatchedParty(HorizontalParty):
    """Notes the trees it grows, without keeping them."""

    def _start(self, start: Any) -> HorizontalPartyTrees:
        trees = super()._start(start)
        self.grown: ReferenceType[HorizontalPartyTrees] = ref(trees)
        return trees


@pytest.fixture
def _only_counted_references() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make_shares() -> Shares:
    rng = np.random.default_rng(0)
    return Shares(rng.normal(size=(60, 3)), rng.integers(0, 2, 60), np.arange(60) % 3)


@pytest.mark.usefixtures("_only_counted_references")
@pytest.mark.parametrize("plug", PLUGS, ids=repr)
def test_rows_and_labels_of_the_training_are_set_free_when_the_forest_is_there(plug: Plug) -> None:
    training = train_openly(make_shares(), plug, party_options={"make_party": WatchedParty})
    for party in training.parties.values():
        assert isinstance(party, WatchedParty)
        assert party.grown() is None
        assert party.model is not None


@pytest.mark.usefixtures("_only_counted_references")
@pytest.mark.parametrize("plug", PLUGS, ids=repr)
def test_a_party_that_nobody_holds_is_gone_at_once(plug: Plug) -> None:
    training = train_openly(make_shares(), plug)
    parties = [ref(party) for party in training.parties.values()]
    del training
    assert [party() for party in parties] == [None] * 3


def test_a_forest_is_expanded_once_and_is_the_one_that_was_trained() -> None:
    training = train_openly(make_shares())
    for party in training.parties.values():
        model = party.model
        assert model is not None
        assert party.model is model
        assert_same_arrays(model.forest, training.trained.forest)


def test_no_trees_grow_after_the_forest_was_taken() -> None:
    shares = make_shares()
    model = train_openly(shares).trained.model
    asked = AskedParty(shares.X, shares.y)
    asked.tell(TakeForest(memoryview(model)))
    with pytest.raises(RemoteProtocolError, match="training is over"):
        asked.propose([[0, 1]], start=start_trees(1, 60))
