"""A criterion that counts targets from zero, between services: who refuses, and what is said."""

from collections.abc import Iterator

import numpy as np
import pyarrow
import pytest

from fedforest.errors import ConfigurationError
from fedforest.privacy.global_dp import GlobalDP
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.messages.orders import OptionChoice, TrainHorizontal, TrainVertical
from fedforest.runtime.messages.results import HorizontalResult, VerticalResult
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation

PARTIES = ("bank", "shop")
BALANCE = -98765.4375  # nobody could come upon it by chance
COUNTS = ForestParameters(
    task="regression", criterion="poisson", n_estimators=3, max_depth=4, bootstrap=False
)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    rng = np.random.default_rng(0)
    tables = {}
    for i, party in enumerate(PARTIES):
        x = rng.normal(size=60)
        known = {"visits": rng.poisson(np.exp(x)), "balance": np.where(x > 0, x, BALANCE)}
        numbers = pyarrow.table({"x": x, **known, "never": np.zeros(60)})
        named = numbers.rename_columns([f"{name}{i}" for name in numbers.column_names])
        tables[party] = {"columns": named, "rows": numbers}
    folder = tmp_path_factory.mktemp("criteria")
    pattern = make_federation(folder / "pattern", tables)
    with local_federation(folder / "federation", pattern) as found:
        yield found


def by_columns(label: str) -> TrainVertical:
    data = dict.fromkeys(PARTIES, "columns")
    return TrainVertical(data=data, label=label, label_party="bank", parameters=COUNTS, seed=3)


def by_rows(label: str, privacy: GlobalDP | None = None) -> TrainHorizontal:
    return TrainHorizontal(
        data=dict.fromkeys(PARTIES, "rows"),
        label=label,
        parameters=COUNTS,
        seed=3,
        aggregation=OptionChoice.of(Masked()),
        privacy=None if privacy is None else OptionChoice.of(privacy),
    )


def test_forests_for_counts_are_trained_in_both_systems(federation: LocalFederation) -> None:
    assert federation.ask(by_columns("visits0"), VerticalResult, b"v" * 16)
    assert federation.ask(by_rows("visits"), HorizontalResult, b"h" * 16)


@pytest.mark.parametrize(
    ("order", "kind", "who"),
    [
        (by_columns("balance0"), VerticalResult, "'bank'"),
        (by_rows("balance"), HorizontalResult, ""),
    ],
)
def test_who_holds_targets_below_zero_refuses_without_saying_which(
    federation: LocalFederation, order: TrainVertical | TrainHorizontal, kind: type, who: str
) -> None:
    with pytest.raises(ConfigurationError, match="some are negative") as refused:
        federation.ask(order, kind, b"n" * 15 + kind.__name__[:1].encode())
    assert who in str(refused.value)
    assert "98765" not in str(refused.value)


@pytest.mark.parametrize(
    ("order", "kind"),
    [(by_columns("never0"), VerticalResult), (by_rows("never"), HorizontalResult)],
)
def test_where_nothing_was_counted_there_is_no_forest(
    federation: LocalFederation, order: TrainVertical | TrainHorizontal, kind: type
) -> None:
    with pytest.raises(ConfigurationError, match="all are zero"):
        federation.ask(order, kind, b"z" * 15 + kind.__name__[:1].encode())


def test_noise_is_refused_before_a_party_is_asked(federation: LocalFederation) -> None:
    noisy = by_rows("visits", GlobalDP(epsilon_query=1.0, target_bounds=(0.0, 9.0)))
    with pytest.raises(ConfigurationError, match="does not go together with privacy"):
        federation.ask(noisy, HorizontalResult, b"g" * 16)
