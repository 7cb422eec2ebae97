"""Who may ask a coordinator for what: every request, by every role, about everybody's runs."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from docs.book.pages import GENERATORS
from fedforest.errors import AccessRefused, ConfigurationError
from fedforest.runtime.coordinator.access import RIGHTS, Access
from fedforest.runtime.membership.user_roles import UserRole
from fedforest.runtime.messages import orders
from fedforest.runtime.messages.orders import (
    AlignRows,
    CancelRun,
    CompleteModel,
    ListRuns,
    PredictLinear,
    PredictVertical,
    ShareRun,
    ShowRun,
    TrainLinear,
    encode_order,
)
from fedforest.runtime.messages.results import (
    ModelFile,
    Predictions,
    RunDetails,
    RunList,
    VerticalResult,
)
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.identity import Identity
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.samples import COLUMNS, NAMES, divide, horizontal, vertical

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "users.md"
OWN, SHARED, FOREIGN = (bytes([number]) * 16 for number in (1, 2, 3))
DATA = dict.fromkeys(NAMES[:2], COLUMNS)
ROLES: dict[str, UserRole] = {
    "vic": "viewer",
    "sue": "service",
    "sam": "scientist",
    "oda": "operator",
}

# Written down apart from the code: what a viewer, a service, a scientist and an operator may use
# each request with. n: new runs, o: own ones, s: shared with the user, f: foreign ones.
ALLOWED = {
    "TrainVertical": ("", "", "n", "n"),
    "TrainHorizontal": ("", "", "n", "n"),
    "TrainLinear": ("", "", "n", "n"),
    "AlignRows": ("", "", "n", "n"),
    "DescribeTables": ("", "", "n", "n"),
    "ListAlignments": ("", "", "n", "n"),
    "RemoveAlignment": ("", "", "n", "n"),
    "ListRuns": ("n", "n", "n", "n"),
    "ShowRun": ("os", "", "os", "osf"),
    "LogOfRun": ("os", "", "os", "osf"),
    "WatchRun": ("", "", "os", "osf"),
    "ResumeRun": ("", "", "o", "osf"),
    "EndRunEarly": ("", "", "o", "osf"),
    "CancelRun": ("", "", "o", "osf"),
    "ShareRun": ("", "", "o", "osf"),
    "PredictVertical": ("", "os", "os", "osf"),
    "PredictLinear": ("", "os", "os", "osf"),
    "CompleteModel": ("", "", "os", "osf"),
    "ListModels": ("n", "n", "n", "n"),
    "ShowModel": ("os", "os", "os", "osf"),
    "WithdrawModel": ("", "", "o", "osf"),
    "DeleteModel": ("", "", "o", "osf"),
    "PruneRuns": ("", "", "n", "n"),
    "ShowStatus": ("n", "n", "n", "n"),
    "ShowTree": ("", "", "os", "osf"),
    "InviteMember": ("", "", "", "n"),
    "RevokeMember": ("", "", "", "n"),
    "GrantRole": ("", "", "", "n"),
}


def requests_of(name: str) -> dict[str, Any]:
    """Return a request of this kind about a new, the own, a shared and a foreign run."""
    kind = getattr(orders, name)
    new: dict[str, Callable[[], Any]] = {
        "TrainVertical": lambda: vertical(2),
        "TrainHorizontal": lambda: horizontal(2),
        "TrainLinear": lambda: TrainLinear(
            data=DATA,
            label="label",
            label_party="bank",
            is_regression=False,
            penalty=1.0,
            max_iter=2,
            tol=0.0,
        ),
        "AlignRows": lambda: AlignRows(data=DATA),
        "DescribeTables": lambda: orders.DescribeTables(data=DATA),
        "ListAlignments": orders.ListAlignments,
        "RemoveAlignment": lambda: orders.RemoveAlignment("people"),
        "ListRuns": ListRuns,
        "ListModels": orders.ListModels,
        "ShowStatus": orders.ShowStatus,
        "InviteMember": lambda: orders.InviteMember(role="party", name="shop"),
        "RevokeMember": lambda: orders.RevokeMember("shop"),
        "GrantRole": lambda: orders.GrantRole(name="ben", user_role="viewer"),
        "PruneRuns": lambda: orders.PruneRuns(orders.RunFilter()),
    }
    if name in new:
        return {"n": new[name]()}
    about = "model" if "model" in kind.__struct_fields__ else "run"
    more: dict[str, Any] = {"user": "ben"} if kind is ShareRun else {}
    more |= {"data": DATA} if kind in {PredictVertical, PredictLinear} else {}
    runs = {"o": OWN, "s": SHARED, "f": FOREIGN}
    return {letter: kind(**{about: run.hex()}, **more) for letter, run in runs.items()}


def access_for(folder: Path, user: str) -> Access:
    store = RunStore(folder)
    access = Access(store, lambda name: ROLES.get(name, "scientist"))
    for run, owner in {OWN: user, SHARED: "ben", FOREIGN: "ben"}.items():
        store.begin(run, b"").close()
        access.own(run, owner)
    access.share(SHARED, user)
    return access


def is_allowed(access: Access, order: Any, user: str) -> bool:
    try:
        access.check(order, user)
    except AccessRefused:
        return False
    return True


@pytest.mark.parametrize("user", ROLES)
@pytest.mark.parametrize("name", ALLOWED)
def test_every_request_is_allowed_or_refused_as_it_is_written_down(
    tmp_path: Path, name: str, user: str
) -> None:
    access = access_for(tmp_path, user)
    requests = requests_of(name)
    allowed = {letter for letter, order in requests.items() if is_allowed(access, order, user)}
    assert allowed == set(ALLOWED[name][list(ROLES).index(user)]) & requests.keys()


def test_the_table_has_every_request_that_a_user_can_make() -> None:
    every = {kind.__name__ for kind in orders.AnyOrder.__args__}
    assert every == ALLOWED.keys() == {kind.__name__ for kind in RIGHTS}


def test_the_guide_shows_the_table_of_the_code() -> None:
    assert "<!-- generated: rights of users -->" in GUIDE.read_text()
    shown = GENERATORS["rights of users"]().splitlines()
    letters = {"–": "", "own": "no", "own and shared": "nos", "all": "nosf"}
    for name, by_role in ALLOWED.items():
        (line,) = [line for line in shown if line.startswith(f"| `{name}` |")]
        cells = [letters[cell.strip()] for cell in line.split("|")[2:-1]]
        about = {letter for letters in by_role for letter in letters} or {"o"}
        relevant = {"n"} if about == {"n"} else {"o", "s", "f"}
        assert [set(cell) & relevant for cell in cells] == [set(role) for role in by_role], name


def test_a_standing_alignment_is_removed_by_its_maker_or_an_operator(tmp_path: Path) -> None:
    access = access_for(tmp_path, "sam")
    access.check_alignment("people", "sam", "sam")
    access.check_alignment("people", "sam", "oda")
    with pytest.raises(AccessRefused, match="people was made by another user than ben"):
        access.check_alignment("people", "sam", "ben")


def test_a_run_that_others_own_is_unknown_to_a_user(tmp_path: Path) -> None:
    access = access_for(tmp_path, "sam")
    texts = []
    for run in (FOREIGN, bytes(16)):
        with pytest.raises(AccessRefused) as caught:
            access.check(ShowRun(run=run.hex()), "sam")
        texts.append(str(caught.value).replace(run.hex(), "RUN"))
    assert texts[0] == texts[1]


def test_sharing_outlives_the_process_and_ends_when_it_is_ended(tmp_path: Path) -> None:
    access_for(tmp_path, "sam")
    again = Access(RunStore(tmp_path), ROLES.__getitem__)
    again.check(ShowRun(run=SHARED.hex()), "sam")
    again.share(SHARED, "sam", ends=True)
    with pytest.raises(AccessRefused):
        again.check(ShowRun(run=SHARED.hex()), "sam")


def test_a_damaged_file_of_rights_lets_no_user_in(tmp_path: Path) -> None:
    access_for(tmp_path, "sam")
    (tmp_path / "runs" / OWN.hex() / "access.json").write_bytes(b'{"owner": 3}')
    with pytest.raises(ConfigurationError, match="damaged"):
        Access(RunStore(tmp_path), ROLES.__getitem__).check(ShowRun(run=OWN.hex()), "sam")


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    users = ROLES | {"ben": "scientist"}
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern, users=lambda: users) as federation:
        yield federation


def test_a_model_is_its_owners_until_it_is_shared(
    federation: LocalFederation, caplog: pytest.LogCaptureFixture
) -> None:
    trained = federation.ask(vertical(2), VerticalResult, OWN, user="ben")
    assert isinstance(trained, VerticalResult)
    predicting = PredictVertical(data=DATA, model=trained.model)
    for user in ("sam", "sue", "vic"):
        with pytest.raises(AccessRefused):
            federation.ask(predicting, Predictions, user=user)
    with pytest.raises(AccessRefused):
        federation.ask(CompleteModel(model=trained.model), ModelFile, user="sam")
    with pytest.raises(AccessRefused):
        federation.ask(CancelRun(run=OWN.hex()), RunList, user="sam")
    more = msgspec.structs.replace(vertical(2), continues=trained.model)
    with pytest.raises(AccessRefused):
        federation.ask(more, VerticalResult, SHARED, user="sam")
    assert federation.ask(ListRuns(), RunList, user="sam") == RunList([])
    with pytest.raises(ConfigurationError, match="did you mean 'sam'"):
        federation.ask(ShareRun(run=OWN.hex(), user="samm"), RunDetails, user="ben")
    caplog.set_level(logging.INFO, "fedforest")
    for user in ("sam", "sue"):
        shared = federation.ask(ShareRun(run=OWN.hex(), user=user), RunDetails, user="ben")
    assert isinstance(shared, RunDetails)
    assert shared.shared_with == ["sam", "sue"]
    votes = [federation.ask(predicting, Predictions, user=user) for user in ("ben", "sam", "sue")]
    assert votes[0] == votes[1] == votes[2]
    listed = federation.ask(ListRuns(), RunList, user="sam")
    assert isinstance(listed, RunList)
    assert [run.run for run in listed.runs] == [OWN.hex()]


def test_the_log_has_who_asked_for_what_about_which_run(
    federation: LocalFederation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedforest")
    federation.ask(vertical(2), VerticalResult, OWN, user="ben")
    with pytest.raises(AccessRefused):
        federation.ask(ShowRun(run=OWN.hex()), RunDetails, user=Identity("f", "user", "sam"))
    refused = [record for record in caplog.records if record.getMessage() == "refused"]
    assert len(refused) == 1
    assert refused[0].levelno == logging.WARNING
    told = json.dumps(vars(refused[0]), default=str)
    assert "fedforest:f/user/sam" in told
    assert "ShowRun" in told
    assert OWN.hex() in told


def test_an_order_is_refused_at_the_service_before_a_run_is_stored(
    federation: LocalFederation,
) -> None:
    for user in ("vic", "sue", "unknown"):
        with pytest.raises(AccessRefused):
            next(federation.coordinator.serve(user, encode_order(vertical(2))))
    assert federation.ask(ListRuns(), RunList, user="oda") == RunList([])
