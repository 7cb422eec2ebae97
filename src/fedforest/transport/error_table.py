"""The errors that travel to a peer, and the classes that are raised there.

Errors of this package travel by the name of their class, with their code and the fields that a peer
may see; the peer makes the text (`error_texts.py`). An error whose text is a sentence without a
code travels as its class alone. Any other exception is a bug whose text may hold anything: it stays
in the log of the process that raised it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fedforest import errors
from fedforest.error_texts import (
    FIELDS,
    PUBLIC_TEXT_OF_CLASS,
    TEXTS,
    Text,
    fields_of,
    join,
    render,
    select_shared,
)
from fedforest.errors import (
    FederationError,
    PartyLost,
    ProtocolError,
    RemoteProtocolError,
    TransportError,
)
from fedforest.printable import printable, printable_in
from fedforest.transport.frames import LONGEST_TEXT, Refusal

# Of classes elsewhere nobody has promised that they may travel.
_KIND_BY_NAME: dict[str, type[FederationError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, FederationError)
}

INTERNAL = "internal"


def refuse(request_id: int, error: BaseException, *, hides_names: bool) -> Refusal:
    """Return what a peer may see of an error, or a user, from whom the coordinator hides none.

    Both get the code; a peer gets the fields that it may see, a user the text as well.
    """
    kind = type(error).__name__
    if not isinstance(error, FederationError) or _KIND_BY_NAME.get(kind) is not type(error):
        return Refusal(request_id, INTERNAL)
    fields = select_shared(error.fields) if hides_names else error.fields
    return Refusal(
        request_id,
        kind,
        error.code,
        {name: _shorten(value) for name, value in fields.items()},
        error.party[:64],
        "" if hides_names else _text_of(error)[:LONGEST_TEXT],
    )


def _shorten(value: Any) -> str | int | float:
    if isinstance(value, int | float):
        return value
    return (", ".join(value.values()) if isinstance(value, Mapping) else str(value))[:LONGEST_TEXT]


def _text_of(error: FederationError) -> str:
    """Without the party that some classes put in front."""
    return str(error.args[0]) if isinstance(error, PartyLost | RemoteProtocolError) else str(error)


def read_refusal(refusal: Refusal) -> Text:
    """Read a party's refusal, in words of this machine."""
    if refusal.code in TEXTS:
        return render(refusal.code, _shared_of(refusal))
    return Text(PUBLIC_TEXT_OF_CLASS[refusal.kind])


def _shared_of(refusal: Refusal) -> dict[str, Any]:
    """The fields of a refusal, but none that a party has no business to send."""
    fields: dict[str, Any] = printable_in(refusal.fields)
    return select_shared({name: value for name, value in fields.items() if name in FIELDS})


def error_of_party(refusal: Refusal, party: str) -> FederationError:
    """Return the error to raise at the coordinator after a party's refusal; it names that party."""
    kind = _KIND_BY_NAME.get(refusal.kind)
    if kind is None:
        return RemoteProtocolError("internal error at the party, see its log", party)
    told = read_refusal(refusal)
    if issubclass(kind, PartyLost):
        return kind(join(told), party)
    if issubclass(kind, ProtocolError):
        return RemoteProtocolError(f"refused the request: {join(told)}", party)
    code = refusal.code if refusal.code in TEXTS else ""
    return _tell(kind, party, told, code, _shared_of(refusal) if code else {})


def fill_in(error: FederationError, named: Mapping[str, Any]) -> FederationError:
    """Fill in what the asker named itself, where the party's refusal has a field for it."""
    known = {name: named[name] for name in named if error.code and name in fields_of(error.code)}
    if not known:
        return error
    fields = {**error.fields, **known}
    return _tell(type(error), error.party, render(error.code, fields), error.code, fields)


def _tell(
    kind: type[FederationError], party: str, told: Text, code: str, fields: Mapping[str, Any]
) -> FederationError:
    error = kind(f"party {party!r}: {join(told)}")
    error.party, error.told, error.code, error.fields = party, told, code, fields
    return error


def join_refusals(refused: Sequence[FederationError]) -> FederationError:
    """Return one error for several parties' refusals, of the first one's class.

    Parties that refuse for the same reason are named together, with the advice once.
    """
    first = refused[0]
    if len(refused) == 1:
        return first
    parties: dict[Text, list[str]] = {}
    for error in refused:
        parties.setdefault(error.told or Text(_text_of(error)), []).append(repr(error.party))
    advice = {told.advice for told in parties}
    shared = advice.pop() if len(advice) == 1 else ""
    reasons = [
        f"{'party' if len(names) == 1 else 'parties'} {', '.join(names)}: "
        + (told.says if shared else join(told))
        for told, names in parties.items()
    ]
    joined = type(first)(join(Text("; ".join(reasons), shared)))
    joined.party, joined.refusals = first.party, tuple(refused)
    return joined


def error_of_coordinator(refusal: Refusal) -> FederationError:
    """The error to raise at a user's client: the coordinator's own."""
    kind = _KIND_BY_NAME.get(refusal.kind)
    if kind is None:
        return TransportError("internal error at the coordinator, see its log")
    is_named = issubclass(kind, PartyLost | RemoteProtocolError)
    text, party = printable(refusal.text), printable(refusal.party)
    error = kind(text, party) if is_named else kind(text)
    if party:
        error.party = party
    if refusal.code:
        error.code, error.fields = printable(refusal.code), printable_in(refusal.fields)
    return error
