"""Every party comes to the same rows from the same few numbers, today and in later releases."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.runtime.messages.roles import RowChoice
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.row_identity import RowIdentity
from fedforest.runtime.party.row_selection import hold_out, take_rows

ALIGNMENT = "0" * 31 + "1"
ROWS = np.array([4, 0, 3, 1])


class PeopleByName(DataSet):
    """A data set whose ids are those of one column, however a catalogue finds them."""

    __slots__ = ()

    def ids(self) -> NDArray[np.object_]:
        return np.array([name.encode() for name in self.columns.column("id").to_pylist()], object)


def data_set(ids: tuple[str, ...] = ("a", "b", "c", "d", "e"), name: str = "people") -> DataSet:
    columns = {"id": pyarrow.array(ids), "x": np.arange(len(ids), dtype=np.float32)}
    table = pyarrow.table(columns)
    return PeopleByName(name, table, RowIdentity(name, name, table))


def values(data: DataSet) -> list[float]:
    return [float(value) for value in data.column("x")]


@pytest.fixture
def alignments(tmp_path: Path) -> Alignments:
    kept = Alignments(tmp_path / "alignments")
    kept.keep(ALIGNMENT, "people", data_set().ids().tolist(), ROWS)
    return kept


@given(st.integers(2, 300), st.floats(0.001, 0.5), st.integers(0, 2**63 - 1))
def test_the_share_of_rows_that_is_held_out_is_as_asked_and_never_all_or_none(
    n_rows: int, share: float, seed: int
) -> None:
    is_held_out = hold_out(n_rows, share, seed)
    assert is_held_out.sum() == min(max(1, round(share * n_rows)), n_rows - 1)
    assert is_held_out.tolist() == hold_out(n_rows, share, seed).tolist()


def test_which_rows_are_held_out_is_the_same_in_every_release() -> None:
    assert np.flatnonzero(hold_out(20, 0.25, 7)).tolist() == [2, 3, 4, 6, 17]


def test_seeds_hold_out_different_rows_and_every_row_as_often() -> None:
    drawn = np.array([hold_out(40, 0.25, seed) for seed in range(2000)])
    assert len(np.unique(drawn, axis=0)) > 1990
    assert np.abs(drawn.mean(axis=0) - 0.25).max() < 0.05  # five standard deviations


def test_of_one_row_none_can_be_held_out() -> None:
    with pytest.raises(DataError, match="none can be held out"):
        hold_out(1, 0.5, 0)


def test_without_a_choice_a_data_set_stays_as_it_is(alignments: Alignments) -> None:
    data = data_set()
    assert take_rows(data, None, alignments) is data
    assert take_rows(data, RowChoice(), alignments) is data


def test_training_and_validation_divide_the_aligned_rows_in_their_order(
    alignments: Alignments,
) -> None:
    aligned = take_rows(data_set(), RowChoice(alignment=ALIGNMENT), alignments)
    assert values(aligned) == ROWS.tolist()
    choices = [
        RowChoice(alignment=ALIGNMENT, held_out=0.5, seed=3, is_validation=is_validation)
        for is_validation in (False, True)
    ]
    parts = [values(take_rows(data_set(), choice, alignments)) for choice in choices]
    assert sorted(parts[0] + parts[1]) == sorted(ROWS.tolist())
    for part in parts:
        assert part == [row for row in ROWS if row in part]


def test_rows_are_kept_on_the_disk_for_whoever_opens_the_folder(tmp_path: Path) -> None:
    first = Alignments(tmp_path)
    assert not first.has(ALIGNMENT)
    first.keep(ALIGNMENT, "people", [b"a"], np.array([0]))
    assert Alignments(tmp_path).read(ALIGNMENT).rows().tolist() == [0]
    assert (tmp_path / ALIGNMENT).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("data", "alignment", "why"),
    [
        (data_set(("a", "b", "c", "e", "d")), ALIGNMENT, "have changed since"),
        (data_set(("a", "b", "c", "d")), ALIGNMENT, "have changed since"),
        (data_set(name="others"), ALIGNMENT, "another data set"),
        (data_set(), "0" * 32, "no rows of alignment"),
        (data_set(), "../secret", "32 hexadecimal digits"),
    ],
)
def test_rows_that_may_be_others_than_those_aligned_are_refused(
    alignments: Alignments, data: DataSet, alignment: str, why: str
) -> None:
    with pytest.raises(DataError, match=why):
        alignments.rows_of(alignment, data)


def test_a_damaged_file_is_refused(alignments: Alignments, tmp_path: Path) -> None:
    file = tmp_path / "alignments" / ALIGNMENT
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(DataError, match="damaged"):
        alignments.read(ALIGNMENT)
