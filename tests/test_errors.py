import ast
import inspect
import pickle
from pathlib import Path

import pytest

from fedforest import errors
from fedforest.error_texts import STATED, TEXTS, fields_of
from fedforest.errors import (
    AccessRefused,
    BudgetExhausted,
    ConfigurationError,
    DamagedJournalError,
    DamagedModelError,
    DataError,
    FederationError,
    LocalProtocolError,
    MaskingError,
    ModelFileError,
    NewerModelError,
    PartyError,
    PartyLost,
    PolicyRefusal,
    PredictionForgotten,
    PrivacyError,
    ProtocolError,
    RemoteProtocolError,
    ReplayError,
    ShardsLost,
    StorageError,
    TooFewParties,
    TransportError,
    UnknownColumn,
    VersionMismatch,
)

PARENTS_OF_ERROR: dict[type[Exception], tuple[type[Exception], ...]] = {
    FederationError: (Exception,),
    ConfigurationError: (FederationError, ValueError),
    DataError: (FederationError, ValueError),
    UnknownColumn: (DataError,),
    ModelFileError: (FederationError, ValueError),
    DamagedModelError: (ModelFileError,),
    NewerModelError: (ModelFileError,),
    ProtocolError: (FederationError,),
    LocalProtocolError: (ProtocolError,),
    RemoteProtocolError: (ProtocolError,),
    PartyError: (FederationError,),
    PartyLost: (PartyError,),
    PredictionForgotten: (PartyLost,),
    TooFewParties: (PartyError,),
    PolicyRefusal: (PartyError,),
    AccessRefused: (FederationError,),
    PrivacyError: (FederationError,),
    BudgetExhausted: (PrivacyError,),
    MaskingError: (FederationError,),
    StorageError: (FederationError,),
    DamagedJournalError: (StorageError,),
    ShardsLost: (StorageError,),
    ReplayError: (FederationError,),
    TransportError: (FederationError,),
    VersionMismatch: (TransportError,),
}


SOURCE = Path(errors.__file__).parent
# What sentences of rules may have in them: sizes and numbers of messages, parties, parts of rules.
IN_STATEMENTS = {
    "criterion",  # of the order, which everybody knows
    *("step", "last", "number", "sequence", "n_answered", "length", "n_bytes", "n_sets", "sizes"),
    *("n_pairs", "least", "sender", "what", "whom", "strangers", "party"),
}


def calls(*names: str) -> list[tuple[str, ast.Call]]:
    """Every call of a function or method of one of these names, and where it is."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else ""
                name = called.id if isinstance(called, ast.Name) else name
                if name in names:
                    found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", node))
    return found


def named_fields(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords} - {"party"}


def test_every_code_that_is_raised_has_a_text_with_exactly_the_fields_it_is_given() -> None:
    used = set()
    for where, call in calls("of"):
        code = first_text(call)
        if (
            not isinstance(call.func, ast.Attribute)
            or not is_error_class(call.func.value)
            or not code
        ):
            continue  # `Masked.of`, or the code and the fields of another error passed on
        assert named_fields(call) == fields_of(code), where
        used.add(code)
    for where, call in calls("refusal"):
        if rule := first_text(call):
            code, given = f"policy.{rule}", named_fields(call)
            assert None in given or fields_of(code) - {"what"} <= given, where
            used.add(code)
    assert used == TEXTS.keys() - {STATED}


def first_text(call: ast.Call) -> str:
    """What stands in the code as the first argument, where that is text."""
    first = call.args[0] if call.args else None
    return str(first.value) if isinstance(first, ast.Constant) else ""


def is_error_class(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in defined_errors()


def test_statements_are_written_in_the_code_and_hold_only_sizes_and_names_of_parties() -> None:
    n_seen = 0
    for where, call in calls("stating", "check"):
        is_check = isinstance(call.func, ast.Name)
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "check"
        if is_method or len(call.args) != 1 + is_check:
            continue  # another `check`, or the definition's own
        statement = call.args[-1]
        assert isinstance(statement, ast.Constant | ast.Name), f"{where} makes up its statement"
        if isinstance(statement, ast.Constant):
            assert "{" not in str(statement.value) or call.keywords, where
        assert named_fields(call) <= {*IN_STATEMENTS, None}, where
        n_seen += 1
    assert n_seen > 300


def defined_errors() -> dict[str, type[Exception]]:
    return {
        name: member
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, Exception)
        and not issubclass(member, Warning)
        and member.__module__ == errors.__name__
    }


def test_the_exception_tree_has_exactly_these_errors_and_parents() -> None:
    found = {error: error.__bases__ for error in defined_errors().values()}
    assert found == PARENTS_OF_ERROR


def test_the_drawing_at_the_top_shows_every_error_below_its_parent() -> None:
    drawing = inspect.getdoc(errors)
    assert drawing is not None
    parent_at_depth: dict[int, str] = {}
    drawn: dict[str, str] = {}
    for line in drawing.splitlines():
        branches, _, rest = line.rpartition("── ")
        name = rest.split()[0] if rest.split() else ""
        if name not in defined_errors():
            continue
        depth = len(branches) // 4
        parent_at_depth[depth] = name
        if depth:
            drawn[name] = parent_at_depth[depth - 1]
    assert drawn == {
        error.__name__: parents[0].__name__
        for error, parents in PARENTS_OF_ERROR.items()
        if error is not FederationError
    }


@pytest.mark.parametrize("error_type", [RemoteProtocolError, PartyLost])
def test_an_error_about_a_peer_names_the_party_in_attribute_and_text(
    error_type: type[RemoteProtocolError | PartyLost],
) -> None:
    error = error_type("reply of level 3 has the wrong shape; update that party", "bank")
    assert error.party == "bank"
    assert str(error) == "party 'bank': reply of level 3 has the wrong shape; update that party"


@pytest.mark.parametrize("error_type", [RemoteProtocolError, PartyLost])
def test_an_error_about_a_peer_keeps_its_party_when_it_crosses_a_process_border(
    error_type: type[RemoteProtocolError | PartyLost],
) -> None:
    error = error_type("no reply within 30 seconds", "shop")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is error_type
    assert (copy.party, str(copy)) == (error.party, str(error))


@pytest.mark.parametrize("error_type", [ConfigurationError, DataError, DamagedModelError])
def test_mistakes_in_settings_data_and_files_can_be_caught_as_value_errors(
    error_type: type[FederationError],
) -> None:
    with pytest.raises(ValueError, match="max_depth"):
        raise error_type("max_depth must be at least 1")


def failing() -> FederationError:
    """An error as it is where it was caught: with frames, and another error behind it."""
    try:
        try:
            raise KeyError("secret")
        except KeyError as cause:
            refusal = DataError.of("data_set.unknown", data_set="rows", party="bank")
            joined = RemoteProtocolError("broke it", "shop")
            joined.refusals = (refusal,)
            raise joined from cause
    except RemoteProtocolError as error:
        return error


def test_a_bare_error_says_the_same_and_holds_nothing_else() -> None:
    error = failing()
    bare = error.bare()
    assert (type(bare), str(bare), bare.party) == (type(error), str(error), "shop")
    assert (bare.refusals[0].code, bare.refusals[0].party) == ("data_set.unknown", "bank")
    assert error.__traceback__ is not None
    assert (bare.__traceback__, bare.__cause__, bare.__context__) == (None, None, None)
    keyed = ConfigurationError("k is wrong", key=("aggregation", "k")).bare()
    assert (str(keyed), keyed.key) == ("k is wrong", ("aggregation", "k"))
