"""How many parties must be in every sum: demanded by the run, and by each party for itself."""

from typing import Any

import numpy as np
import pytest

from fedforest.errors import ProtocolError, TooFewParties
from fedforest.protocol.aggregation.options import Masked
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.messages import DeclareTable
from fedforest.protocol.horizontal.order import Participation
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.base import Transport
from fedforest.transport.codec import decode
from tests.protocol.horizontal.federations import Losing, Shares, train_openly
from tests.protocol.horizontal.transcripts import sizes_of_sums
from tests.protocol.transcripts import Recorder


def make_shares(n_parties: int, n_rows: int = 60) -> Shares:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 3))
    return Shares(X, (X[:, 0] > 0).astype(np.int64), np.arange(n_rows) % n_parties)


class Watched:
    """Keeps what goes through, also of trainings that fail."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None

    def __call__(self, inner: Transport) -> Transport:
        self.recorder = Recorder(inner)
        return self.recorder

    def asked(self) -> list[type]:
        assert self.recorder is not None
        sent = self.recorder.requests
        return [type(decode(next(iter(requests.values())), REQUESTS)) for requests in sent]


@pytest.mark.parametrize("plug", ["plain", Masked()])
def test_fewer_parties_than_demanded_are_an_error_before_anything_is_sent(plug: Plug) -> None:
    watched = Watched()
    with pytest.raises(TooFewParties, match="at least 5 must take part"):
        train_openly(
            make_shares(4), plug, wrap=watched, participation=Participation(1.0, "tree", 5)
        )
    assert watched.asked() == []


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_too_few_parties_with_rows_are_told_before_labels_are_counted(
    class_weight: str | None,
) -> None:
    """The sum over a party with rows and one without is the former's own, masks or not."""
    shares = make_shares(1)
    lonely = Shares(shares.X, shares.y, np.ones_like(shares.owner))  # p0 has nothing
    watched = Watched()
    with pytest.raises(TooFewParties, match="1 of the parties that are there have rows"):
        train_openly(
            lonely,
            Masked(),
            wrap=watched,
            participation=Participation(1.0, "tree", 2),
            class_weight=class_weight,
        )
    assert watched.asked() == [DeclareTable]


def test_training_ends_when_a_loss_leaves_too_few() -> None:
    settings: dict[str, Any] = {"participation": Participation(1.0, "tree", 4), "max_depth": 3}

    def lose(inner: Transport) -> Transport:
        return Losing(inner, "p2", 8)

    with pytest.raises(TooFewParties, match=r"at least 4 must take part.*Resume the run"):
        train_openly(make_shares(5), Masked(), wrap=lose, **settings)
    pairs: dict[str, Any] = {"participation": Participation(1.0, "tree", 2), "max_depth": 3}
    assert train_openly(make_shares(5), Masked(), wrap=lose, **pairs).trained.lost == ("p2",)


@pytest.mark.parametrize("scope", ["tree", "step", "run"])
def test_every_sum_is_over_as_many_as_demanded(scope: str) -> None:
    few = Participation(0.3, scope, 3)  # type: ignore[arg-type] # one of three
    training = train_openly(make_shares(7), Masked(), participation=few, n_estimators=8)
    sizes = sizes_of_sums(training)
    assert min(sizes) == 3
    assert max(sizes) <= 7


def test_a_party_that_demands_more_than_the_run_promises_takes_part_in_no_sum() -> None:
    pairs = Participation(0.5, "tree", 2)
    with pytest.raises(ProtocolError, match="fewer than 3 parties with rows"):
        train_openly(
            make_shares(6),
            Masked(),
            participation=pairs,
            n_estimators=8,
            party_options={"least_participants": 3},
        )
    train_openly(
        make_shares(6),
        Masked(),
        participation=Participation(0.5, "tree", 3),
        n_estimators=8,
        party_options={"least_participants": 3},
    )
