"""Organisations that share some ids, as processes: aligned, trained, scored, killed on the way."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fedforest.errors import FederationError
from fedforest.runtime.messages.orders import (
    Align,
    AlignmentMethod,
    AlignRows,
    PredictVertical,
    RemoveAlignment,
    StandingName,
    TrainHorizontal,
)
from fedforest.runtime.messages.results import (
    Alignment,
    AlignmentList,
    Exchanged,
    News,
    Predictions,
    VerticalResult,
)
from fedforest.runtime.party.alignments import Alignments
from tests.integration.disturbances import kill_and_restart
from tests.integration.processes import AnyResult, Processes, result_type, start_processes
from tests.integration.samples import AnyTraining
from tests.runtime.partly_shared import (
    PARTIES,
    horizontal_order,
    make_tables,
    masked,
    members,
    vertical_order,
)

TWO = PARTIES[:2]
PEOPLE = dict.fromkeys(TWO, "people")


@pytest.fixture(scope="module")
def shared_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    folder = tmp_path_factory.mktemp("partly shared")
    with start_processes(folder, make_tables(TWO)) as processes:
        yield processes


@pytest.fixture
def two(shared_two: Processes) -> Processes:
    """A coordinator and two parties; whoever an earlier test left dead is started again."""
    shared_two.folder.start()
    return shared_two


def people_of(two: Processes, party: str, alignment: str) -> list[int]:
    kept = Alignments(two.folder.parties[party].home / "alignments").read(alignment)
    return [members(party)[row] for row in kept.rows()]


@pytest.mark.parametrize("method", ["keyed-hash", "psi"])
def test_parties_keep_the_rows_they_have_in_common(two: Processes, method: AlignmentMethod) -> None:
    with two.user() as user:
        alignment = user.train(AlignRows(data=PEOPLE, method=method), Alignment)
    common = set(members("bank")) & set(members("shop"))
    assert alignment.n_common == len(common)
    taken = [people_of(two, party, alignment.id) for party in TWO]
    assert taken[0] == taken[1]
    assert set(taken[0]) == common


@pytest.mark.parametrize("align", [True, "psi"])
def test_an_aligned_training_is_scored_and_predicts_what_it_does_without_processes(
    two: Processes, align: Align
) -> None:
    order = vertical_order(data=PEOPLE, alone=True, align=align)
    result = two.train(order)
    two.check(order, result)
    assert isinstance(result, VerticalResult)
    assert result.validation is not None
    assert result.validation.alone.keys() == set(TWO)
    with two.user() as user:
        aligned = user.ask(
            PredictVertical(data=PEOPLE, model=result.model, align=align), Predictions
        )
    assert aligned.alignment is not None
    assert aligned.read().shape == (aligned.alignment.n_common, 2)
    assert np.allclose(aligned.read().sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("role", "part", "align"),
    [
        ("shop", "alignment", True),
        ("shop", "alignment", "psi"),
        ("coordinator", "alone, shop", True),
        pytest.param("coordinator", "alignment", True, marks=pytest.mark.exhaustive),
        pytest.param("coordinator", "alignment", "psi", marks=pytest.mark.exhaustive),
        pytest.param("bank", "validation", True, marks=pytest.mark.exhaustive),
    ],
)
def test_a_role_that_is_killed_in_a_part_of_a_run_comes_back_and_scores_are_the_same(
    two: Processes, role: str, part: str, align: Align
) -> None:
    order = vertical_order(data=PEOPLE, alone=True, align=align)
    two.check(order, train_and_kill(two, order, role, part))


def train_and_kill(two: Processes, order: AnyTraining, role: str, part: str) -> AnyResult:
    """Kill a role, and start it again, when the first exchange of a part is heard of."""
    is_killed = False

    def tell(event: News) -> None:
        nonlocal is_killed
        if not is_killed and isinstance(event, Exchanged) and event.note.get("part") == part:
            is_killed = True
            kill_and_restart(two, role)()

    with two.user() as user:
        result = user.train(order, result_type(order), tell)
    assert is_killed
    return result


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (masked, "alone"),
        pytest.param(horizontal_order, "validation", marks=pytest.mark.exhaustive),
    ],
)
def test_parties_score_a_horizontal_model_beside_their_own(
    two: Processes, make: Callable[..., TrainHorizontal], part: str
) -> None:
    order = make(data=dict.fromkeys(TWO, "rows"))
    two.check(order, train_and_kill(two, order, "shop", part))


def write_people(two: Processes, party: str, rows: slice) -> None:
    """Give a party another table of people, while its process does not run."""
    table = make_tables(TWO)[party]["people"]
    chosen = table.take(pyarrow.array(range(table.num_rows)[rows]))
    pyarrow.parquet.write_table(chosen, two.folder.parties[party].home / "people.parquet")


@pytest.fixture
def whole_tables(two: Processes) -> Iterator[None]:
    """Tables that a test changed are as they were for the next one."""
    yield
    for party in TWO:
        write_people(two, party, slice(None))


@pytest.mark.usefixtures("whole_tables")
def test_a_list_that_changed_while_its_party_was_dead_is_refused(two: Processes) -> None:
    is_killed = False

    def tell(event: News) -> None:
        nonlocal is_killed
        if not is_killed and isinstance(event, Exchanged) and event.request == "BlindIds":
            is_killed = True
            two.folder.role("shop").kill()
            write_people(two, "shop", slice(10, None))
            two.folder.role("shop").start()

    with two.user() as user, pytest.raises(FederationError, match=r"'shop'.* is not what it was"):
        user.train(AlignRows(data=PEOPLE, method="psi"), Alignment, tell)
    assert is_killed


@pytest.mark.slow
@pytest.mark.usefixtures("whole_tables")
def test_a_standing_alignment_outlives_every_process_and_is_extended(two: Processes) -> None:
    two.folder.role("bank").kill()
    write_people(two, "bank", slice(0, None, 2))
    two.folder.role("bank").start()
    with two.user() as user:
        order = AlignRows(data=PEOPLE, method="psi", name="people", days=3)
        made = user.train(order, Alignment)
    for role in ("coordinator", *TWO):
        two.folder.role(role).kill()
    write_people(two, "bank", slice(None, None, -1))
    two.folder.start()
    extend = AlignRows(data=PEOPLE, method="psi", extends="people")
    is_killed: set[str] = set()

    def tell(event: News) -> None:
        if isinstance(event, Exchanged) and event.request == "GiveList" and not is_killed:
            is_killed.add("shop")
            kill_and_restart(two, "shop")()

    with two.user() as user:
        extended = user.train(extend, Alignment, tell)
        assert is_killed
        common = set(members("bank")) & set(members("shop"))
        assert made.n_common < extended.n_common == len(common)
        train = vertical_order(data=PEOPLE, align=StandingName("people"), validation=None)
        result = user.train(train, VerticalResult)
        assert result.alignment is not None
        taken = people_of(two, "shop", result.alignment.id)
        kept = Alignments(two.folder.parties["bank"].home / "alignments").read(result.alignment.id)
        assert taken == [members("bank")[::-1][row] for row in kept.rows()]
        assert set(taken) == common
        assert user.ask(RemoveAlignment("people"), AlignmentList) == AlignmentList([])
    for party in TWO:
        assert not list((two.folder.parties[party].home / "standing").iterdir())
