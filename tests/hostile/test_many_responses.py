"""Whoever wants a label under `LocalDP` wants many independent responses of one row.

A cap is booked once for one response. Every further response of the same row tells as much again,
and nothing of it is booked.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import PolicyRefusal
from fedforest.privacy.global_dp import GlobalDP
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.party.row_selection import hold_out
from fedforest.runtime.party.spending import Budgets
from tests.hostile.lone_party import CAP, FAR_AWAY, LoneParty, likelihood_ratio

Entry = dict[str, Any]
N_ROWS, FAR, HELD_OUT, N_RUNS = 400, 200, 0.5, 60


def table(order: NDArray[np.int64] | None = None, n_appended: int = 0) -> dict[str, list[float]]:
    """Rows with ids, two columns and a label; the row `FAR` is far away."""
    rng = np.random.default_rng(5)
    x0, x1 = rng.random(N_ROWS).round(6), rng.random(N_ROWS).round(6)
    x0[FAR] = FAR_AWAY
    columns = {"id": np.arange(N_ROWS), "x0": x0, "x1": x1, "y": np.arange(N_ROWS) % 2}
    order = np.arange(N_ROWS) if order is None else order
    new = np.arange(n_appended)
    appended = {"id": N_ROWS + new, "x0": new / 8, "x1": new / 8, "y": new % 2}
    return {
        name: [*column[order].tolist(), *appended[name].tolist()]
        for name, column in columns.items()
    }


@pytest.fixture(params=["id", "content"])
def entry(request: pytest.FixtureRequest) -> Entry:
    return {
        "source": "rows.csv",
        **({"id": ["id"]} if request.param == "id" else {"exclude": ["id"]}),
    }


def test_sixty_runs_with_other_held_out_rows_do_not_give_more_than_the_cap(
    tmp_path: Path, entry: Entry
) -> None:
    party = LoneParty(tmp_path)
    party.write("rows.csv", table())
    party.add("rows", **entry)
    party.demand(f"[default]\nepsilon_ceiling = {CAP + 1e-9}\nlabel_columns = ['y']\n")
    responses = {}  # by the position of the row, each of which had responses of its own
    for seed in range(N_RUNS):
        is_held_out = hold_out(N_ROWS, HELD_OUT, seed)
        if not is_held_out[FAR]:
            choice = RowChoice(held_out=HELD_OUT, seed=seed)
            position = int(np.count_nonzero(~is_held_out[:FAR]))
            responses[position] = party.response_of_far_row("rows", choice)
    assert len(responses) > 12
    learned = (
        [*responses.values()] if len(set(responses.values())) > 1 else [responses.popitem()[1]]
    )
    assert likelihood_ratio(learned) <= CAP + 1e-9


def test_sorting_and_appending_to_a_table_give_no_further_response(
    tmp_path: Path, entry: Entry
) -> None:
    party, rng = LoneParty(tmp_path), np.random.default_rng(0)
    responses = set()
    for n_appended in range(12):
        party.write("rows.csv", table(rng.permutation(N_ROWS), n_appended))
        if n_appended == 0:
            party.add("rows", **entry)
        responses.add(party.response_of_far_row("rows"))
    assert len(responses) == 1


runs = st.tuples(
    st.sampled_from(["one", "other"]),  # the entry
    st.integers(0, 50),  # seed of the order of rows
    st.integers(0, 5),  # rows that were appended
    st.none() | st.integers(0, 50),  # seed of held-out rows
)


@pytest.mark.parametrize("with_ids", [True, False])
@settings(max_examples=8, deadline=None)
@given(st.lists(runs, min_size=2, max_size=6))
def test_no_sequence_of_runs_gives_a_second_response(
    with_ids: bool, asked: list[tuple[str, int, int, int | None]]
) -> None:
    own: Entry = {"id": ["id"]} if with_ids else {"exclude": ["id"]}
    with tempfile.TemporaryDirectory() as folder:
        party, responses = LoneParty(Path(folder)), set()
        party.write("rows.csv", table())
        for name in ("one", "other"):
            party.add(name, source="rows.csv", **own)
        for name, order, n_appended, seed in asked:
            rows = np.random.default_rng(order).permutation(N_ROWS)
            party.write("rows.csv", table(rows, n_appended))
            held_out = 0.0 if seed is None else HELD_OUT
            choice = RowChoice(held_out=held_out, seed=seed or 0)
            far = int(np.flatnonzero(rows == FAR)[0])
            if seed is None or not hold_out(N_ROWS + n_appended, HELD_OUT, seed)[far]:
                responses.add(party.response_of_far_row(name, choice))
        assert len(responses) <= 1


def test_another_name_of_the_same_table_gives_no_further_response_and_no_further_budget(
    tmp_path: Path, entry: Entry
) -> None:
    party = LoneParty(tmp_path)
    party.write("rows.csv", table())
    names = [f"rows-{number}" for number in range(12)]
    for name in names:
        party.add(name, **entry)
    assert len({party.response_of_far_row(name) for name in names}) == 1
    spent = {Budgets(tmp_path).read(name, np.inf).spent for name in names}
    assert len(spent) == 1
    assert spent.pop() == pytest.approx(CAP)


def test_another_name_of_the_same_table_does_not_buy_another_budget(tmp_path: Path) -> None:
    party = LoneParty(tmp_path)
    party.write("rows.csv", table())
    for name in ("first", "second"):
        party.add(name, source="rows.csv", id=["id"])
    noise = GlobalDP(epsilon_query=0.1)
    party.agree("first", noise)
    spent = Budgets(tmp_path).read("first", np.inf).spent
    party.demand(f"[default]\nepsilon_ceiling = {1.5 * spent}\nlabel_columns = ['y']\n")
    with pytest.raises(PolicyRefusal, match="ceiling of epsilon"):
        party.agree("second", noise)
    assert Budgets(tmp_path).read("second", np.inf).spent == spent


def test_the_lower_ceiling_of_two_names_of_one_table_holds_for_both(tmp_path: Path) -> None:
    party = LoneParty(tmp_path)
    party.write("rows.csv", table())
    for name in ("strict", "lax"):
        party.add(name, source="rows.csv", id=["id"])
    party.demand(f"[data.strict]\nepsilon_ceiling = {CAP / 2}\nlabel_columns = ['y']\n")
    with pytest.raises(PolicyRefusal, match="ceiling of epsilon"):
        party.response_of_far_row("lax")


def test_two_tables_with_equal_rows_do_not_share_their_noise(tmp_path: Path, entry: Entry) -> None:
    party = LoneParty(tmp_path)
    n_equal, n_tables = 0, 40
    for number in range(n_tables):
        file = f"table-{number}.csv"
        party.write(file, table())
        party.add(f"table-{number}", **{**entry, "source": file})
        n_equal += party.response_of_far_row(f"table-{number}") == (0, 1)
    assert 0 < n_equal < n_tables


def test_who_knows_one_label_column_does_not_read_an_equal_one_by_equal_responses(
    tmp_path: Path,
) -> None:
    pairs = []
    for number in range(12):  # parties with secrets of their own
        party = LoneParty(tmp_path / str(number), secret=number)
        party.write("rows.csv", {**table(), "z": table()["y"]})
        party.add("by-y", source="rows.csv", id=["id"], exclude=["z"])
        party.add("by-z", source="rows.csv", id=["id"], exclude=["y"])
        first = party.response_of_far_row("by-y")
        pairs.append(first == party.response_of_far_row("by-z", label="z"))
    assert not all(pairs)
