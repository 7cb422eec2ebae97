import inspect
import pickle

import pytest

from fedforest import errors
from fedforest.errors import (
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
    PrivacyError: (FederationError,),
    BudgetExhausted: (PrivacyError,),
    MaskingError: (FederationError,),
    StorageError: (FederationError,),
    DamagedJournalError: (StorageError,),
    ReplayError: (FederationError,),
    TransportError: (FederationError,),
    VersionMismatch: (TransportError,),
}


def defined_errors() -> dict[str, type[Exception]]:
    return {
        name: member
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, Exception) and member.__module__ == errors.__name__
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
