"""A row has one key in all runs: in any order and selection, and by any name of its table."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import DataError
from fedforest.masking.key_agreement import IdentityKey
from fedforest.privacy.local_dp import LocalDP, permanent_responses
from fedforest.runtime.messages.roles import PartyKeys, RowChoice
from fedforest.runtime.party.alignments import Alignments
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.runtime.party.catalogue.entries import Entry
from fedforest.runtime.party.data_sets import DataSet
from fedforest.runtime.party.row_identity import RowIdentity
from fedforest.runtime.party.row_selection import take_rows

KEYS = PartyKeys("bank", IdentityKey.from_randomness(lambda n: b"i" * n), b"lasting " * 4)
SECRET = b"secret  " * 4
CODE = LocalDP(bits=48, keep=0.3).resolve(2)  # responses that tell rows apart
ALIGNMENT = "a" * 32
Row = tuple[int, float, str, int]  # id, number, category, label
IDS = Entry(source="rows.csv", types={"c": "category"}, id=["id"])
CONTENT = Entry(source="rows.csv", types={"c": "category"}, exclude=["id"])


@dataclass(frozen=True)
class Use:
    """One run of a coordinator's choice over the table as it is then."""

    order: int  # seed of the order that the table has
    n_rows: int  # appended so far
    held_out: int
    is_validation: bool
    name: str
    aligned: bool


uses = st.builds(
    Use,
    order=st.integers(0, 99),
    n_rows=st.integers(4, 12),
    held_out=st.integers(0, 99),
    is_validation=st.booleans(),
    name=st.sampled_from(["one", "other"]),
    aligned=st.booleans(),
)
rows = st.tuples(st.sampled_from([0.0, -0.0, 0.5, 7.0]), st.sampled_from(["", "a", "b"]))


def write(home: Path, table: Sequence[Row]) -> None:
    lines = ["id,x,c,y", *(",".join(map(str, row)) for row in table)]
    (home / "rows.csv").write_text("\n".join(lines) + "\n")


def respond(data: DataSet, label: str = "y") -> list[int]:
    """The permanent responses of the rows of a run."""
    key = KEYS.response_key(data.identity.response_context(label))
    labels = data.column(label).astype(np.uint16)
    responses: list[int] = permanent_responses(CODE, labels, data.identity.keys(key), key).tolist()
    return responses


@pytest.mark.parametrize("entry", [IDS, CONTENT], ids=["id", "content"])
@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=12, max_size=12), st.lists(uses, min_size=2, max_size=6), st.data())
def test_every_row_has_one_response_in_all_runs(
    entry: Entry,
    values: list[tuple[float, str]],
    runs: list[Use],
    data: st.DataObject,
) -> None:
    labels = data.draw(st.lists(st.integers(0, 1), min_size=12, max_size=12))
    table = [(i, x, c, labels[i]) for i, (x, c) in enumerate(values)]
    seen: dict[object, set[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        catalogue, alignments = Catalogue(home), Alignments(home / "alignments")
        write(home, table)
        for name in ("one", "other"):
            catalogue.add(name, entry)
        for run in runs:
            order = np.random.default_rng(run.order).permutation(run.n_rows)
            write(home, [table[i] for i in order])
            whole = catalogue.read(run.name)
            choice = RowChoice(None, 0.4, run.held_out, run.is_validation)
            if run.aligned and whole.id_columns is not None:
                aligned = np.random.default_rng(run.order + 1).permutation(run.n_rows)[:4]
                alignments.keep(ALIGNMENT, run.name, whole.ids().tolist(), aligned)
                choice = RowChoice(ALIGNMENT, 0.4, run.held_out, run.is_validation)
            used = take_rows(whole, choice, alignments)
            for row, response in zip(tell_rows(used), respond(used), strict=True):
                seen.setdefault(row, set()).add(response)
    n_same = {row: sum(tell_row(other) == row for other in table) for row in seen}
    for row, responses in seen.items():  # rows of the same content have one response each
        assert len(responses) <= (1 if entry is IDS else n_same[row])


def tell_rows(data: DataSet) -> list[object]:
    if data.id_columns is not None:
        return [int(each) for each in data.ids()]
    columns = data.columns.to_pydict()
    return list(zip(*(columns[name] for name in ("x", "c", "y")), strict=True))


def tell_row(row: Row) -> object:
    return (row[1], row[2] or None, row[3])


def identity(table: str = "rows", **columns: object) -> RowIdentity:
    return RowIdentity(table, "rows", pyarrow.table(columns))


def test_rows_of_the_same_content_have_keys_of_their_own_and_the_first_keeps_its_key() -> None:
    one = identity(x=[1.0, 2.0]).keys(SECRET)
    more = identity(x=[1.0, 1.0, 2.0, 1.0]).keys(SECRET)
    assert len(set(more.tolist())) == 4
    assert more[[0, 2]].tolist() == one.tolist()


def test_a_key_does_not_depend_on_the_types_that_other_rows_cause() -> None:
    keys = identity(x=[1, 2], c=["a", "b"]).keys(SECRET)
    text = pyarrow.array(["c", "b", "a"]).dictionary_encode().take([2, 1, 0])
    assert identity(c=text, x=[1.0, 2.0, 2.5]).keys(SECRET)[:2].tolist() == keys.tolist()
    missing = [identity(x=pyarrow.array([value])) for value in (None, float("nan"))]
    assert missing[0].keys(SECRET).tolist() == missing[1].keys(SECRET).tolist()


def test_a_new_column_means_new_responses_under_a_new_cap_unless_it_is_excluded_or_rows_have_ids(
    tmp_path: Path,
) -> None:
    catalogue, contexts = Catalogue(tmp_path), {}
    (tmp_path / "rows.csv").write_text("id,x,y\n1,5,0\n2,6,1\n")
    catalogue.add("content", Entry(source="rows.csv"))
    catalogue.add("ids", Entry(source="rows.csv", id=["id"]))
    names = ("content", "ids")
    before = {name: catalogue.read(name).identity.response_context("y") for name in names}
    (tmp_path / "rows.csv").write_text("id,x,y,new\n1,5,0,8\n2,6,1,9\n")
    catalogue.add("content", Entry(source="rows.csv"), replaces=True)
    catalogue.add("ids", Entry(source="rows.csv", id=["id"]), replaces=True)
    contexts = {name: catalogue.read(name).identity.response_context("y") for name in names}
    assert contexts["ids"] == before["ids"]
    assert contexts["content"] != before["content"]
    assert KEYS.response_key(contexts["content"]) != KEYS.response_key(before["content"])
    catalogue.add("content", Entry(source="rows.csv", exclude=["new"]), replaces=True)
    assert catalogue.read("content").identity.response_context("y") == before["content"]


def test_a_label_that_was_corrected_has_another_response_and_an_id_the_same_key() -> None:
    ids = pyarrow.table({"id": ["a", "b"]})
    keys = [
        RowIdentity("rows", "rows", pyarrow.table({"y": labels}), ids).keys(SECRET).tolist()
        for labels in ([0, 1], [1, 1])
    ]
    assert keys[0] == keys[1]
    assert identity(y=[0, 1]).keys(SECRET)[0] != identity(y=[1, 1]).keys(SECRET)[0]


def test_hidden_columns_do_not_change_keys(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x,secret,y\n1,5,0\n2,6,1\n")
    catalogue = Catalogue(tmp_path)
    whole = catalogue.add("rows", Entry(source="rows.csv"))
    assert respond(whole.without(["secret"])) == respond(whole)


def test_tables_labels_and_parameters_have_responses_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,y,z\n" + "".join(f"{i},1,1\n" for i in range(40)))
    catalogue = Catalogue(tmp_path)
    here = catalogue.add("here", Entry(source="rows.csv", id=["id"]))
    there = catalogue.add("there", Entry(source="rows.csv", id=["id"], table_identity="another"))
    assert len({tuple(respond(here)), tuple(respond(there)), tuple(respond(here, "z"))}) == 3


def test_rows_that_share_an_id_are_refused_because_they_would_share_their_noise() -> None:
    columns = pyarrow.table({"x": [1, 2]})
    shared = RowIdentity("rows", "rows", columns, pyarrow.table({"id": ["7", " 7"]}))
    with pytest.raises(DataError, match="several rows with one id") as caught:
        shared.keys(SECRET)
    assert "7" not in str(caught.value)


def test_the_keys_of_a_table_in_a_release_stay_those_of_the_next() -> None:
    """Other keys would be other responses of the same rows under the same cap."""
    content = identity(x=[1.5, None], c=["a", None], y=[0, 1])
    ids = RowIdentity("t", "rows", content.columns, pyarrow.table({"id": [1, 2]}))
    assert content.keys(SECRET).tolist() == [7118339058538185574, 6524745134687148887]
    assert ids.keys(SECRET).tolist() == [3997345401985431396, 15217533963656312621]
    assert KEYS.response_key(content.response_context("y")).hex()[:16] == "1c50b4f424b54557"
