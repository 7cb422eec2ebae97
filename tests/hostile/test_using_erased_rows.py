"""The coordinator wants rows that their owner erased: by old runs, alignments, or row numbers."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow
import pytest

from fedforest.errors import DataError, FederationError
from fedforest.runtime.messages.orders import AlignRows, PredictVertical, TrainVertical
from fedforest.runtime.messages.party_requests import BeginRun, EndRun
from fedforest.runtime.messages.results import Alignment, Predictions, VerticalResult
from fedforest.runtime.messages.roles import RowChoice, VerticalRole
from fedforest.runtime.party.retention.erasure import RowErasure
from fedforest.tree.growth.parameters import ForestParameters
from tests.hostile.lying_coordinator import TERMS, say
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation, make_party

RUN, OTHER, ALIGNED = (bytes([number]) * 16 for number in (1, 2, 3))
N_ROWS = 60
DATA = dict.fromkeys(("bank", "shop"), "people")
ERASED = ["P-003", "P-017"]


def tables() -> dict[str, dict[str, pyarrow.Table]]:
    """The same people at both parties, in the same order."""
    rng = np.random.default_rng(0)
    ids = [f"P-{row:03}" for row in range(N_ROWS)]
    found = {}
    for party in DATA:
        x = rng.normal(size=N_ROWS)
        columns = {"id": ids, f"{party}_x": x}
        found[party] = {"people": pyarrow.table(columns | {"label": (x > 0).astype(int)})}
    return found


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    pattern = make_federation(tmp_path / "pattern", tables())
    with local_federation(tmp_path / "local", pattern) as federation:
        yield federation


def order(*, align: bool) -> TrainVertical:
    return TrainVertical(
        data=DATA,
        label="label",
        label_party="bank",
        parameters=ForestParameters(n_estimators=2, max_depth=2),
        seed=1,
        align=align,
    )


def erase(federation: LocalFederation) -> RowErasure:
    erasure = RowErasure(federation.homes["bank"], "people", pyarrow.table({"id": ERASED}))
    erasure.carry_out()
    return erasure


def test_later_runs_are_without_the_rows_and_by_ids_only(federation: LocalFederation) -> None:
    before = federation.ask(order(align=True), VerticalResult, RUN)
    erase(federation)
    after = federation.ask(order(align=True), VerticalResult, OTHER)
    assert isinstance(before, VerticalResult)
    assert isinstance(after, VerticalResult)
    assert (before.n_rows, after.n_rows) == (N_ROWS, N_ROWS - len(ERASED))
    with pytest.raises(DataError, match="in no order that other parties know"):
        federation.ask(order(align=False), VerticalResult, ALIGNED)
    predicting = PredictVertical(data=DATA, model=after.model)
    with pytest.raises(DataError, match="in no order that other parties know"):
        federation.ask(predicting, Predictions)
    aligned = federation.ask(msgspec.structs.replace(predicting, align=True), Predictions)
    assert isinstance(aligned, Predictions)
    assert aligned.shape[0] == N_ROWS - len(ERASED)


def test_an_alignment_from_before_is_gone(federation: LocalFederation) -> None:
    alignment = federation.ask(AlignRows(data=DATA), Alignment, ALIGNED)
    assert isinstance(alignment, Alignment)
    [before] = (federation.homes["bank"] / "alignments").iterdir()
    erase(federation)
    role = VerticalRole(data="people", label="label", rows=RowChoice(alignment=before.name))
    with pytest.raises(DataError, match="has no rows of alignment"):
        say(federation, BeginRun(RUN, role, TERMS))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_began_before_leaves_no_model(
    federation: LocalFederation, *, restarts: bool
) -> None:
    alone = msgspec.structs.replace(TERMS, n_parties=1)
    say(federation, BeginRun(RUN, VerticalRole(data="people", label="label"), alone))
    erase(federation)
    if restarts:
        federation.parties["bank"].close()
        federation.parties["bank"] = make_party(federation.homes["bank"])
    with pytest.raises(FederationError, match="is not what it was when run"):
        say(federation, EndRun(RUN, RUN.hex()))
    assert not list((federation.homes["bank"] / "models").iterdir())
    say(federation, EndRun(RUN, None))  # it is given up


def test_what_is_told_of_an_erasure_names_no_id(federation: LocalFederation) -> None:
    report = erase(federation).report()
    assert report.data_sets == ["people"]
    with pytest.raises(DataError) as caught:
        federation.ask(order(align=False), VerticalResult, ALIGNED)
    for known in (*ERASED, "P-"):
        assert known not in str(caught.value)
