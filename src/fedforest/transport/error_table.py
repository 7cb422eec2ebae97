"""Which errors travel to a peer, and as what they are raised there.

Errors of this package travel by name with their public text. Everything else is a bug whose text
may hold anything: it stays in the log of whoever made it.
"""

import re
from collections.abc import Sequence

from fedforest import errors
from fedforest.errors import (
    DataError,
    FederationError,
    ModelFileError,
    PartyLost,
    ProtocolError,
    RemoteProtocolError,
    TransportError,
)
from fedforest.transport.frames import LONGEST_TEXT, Refusal

# The text of these may name columns, which are nobody else's business.
_NAMES_COLUMNS = (DataError, ModelFileError)
# These name a party, which is the peer itself where a party refuses.
_NAMES_A_PARTY = (PartyLost, RemoteProtocolError)
# The text of every error in the tree is public; of classes elsewhere nobody has promised that.
_KIND_BY_NAME: dict[str, type[FederationError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, FederationError)
}

INTERNAL = "internal"
HIDDEN_NAME = "(named in its log)"  # instead of a name in a text that leaves a party
_QUOTED = re.compile(r"""(?<!\w)('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
# The texts of these name files of their machine; a peer is told the first that fits instead.
_PUBLIC_TEXT: dict[type[FederationError], str] = {
    errors.DamagedJournalError: "its journal of the run is damaged, see its log; begin it anew",
    errors.StorageError: "a file cannot be written or read, see its log; then resume the run",
    errors.ReplayError: "what it answered before it cannot answer again, see its log",
}


def refuse(request_id: int, error: BaseException, *, hides_names: bool) -> Refusal:
    """What a peer may know of an error; `hides_names` hides names of columns and files."""
    kind = type(error).__name__
    if _KIND_BY_NAME.get(kind) is not type(error):
        return Refusal(request_id, INTERNAL, "")
    text = str(error.args[0]) if isinstance(error, _NAMES_A_PARTY) else str(error)
    if hides_names and isinstance(error, _NAMES_COLUMNS):
        text = _QUOTED.sub(HIDDEN_NAME, text)
    if hides_names:
        text = next((public for k, public in _PUBLIC_TEXT.items() if isinstance(error, k)), text)
    return Refusal(request_id, kind, text[:LONGEST_TEXT], error.party[:64])


def error_of_party(refusal: Refusal, party: str) -> FederationError:
    """The error to raise at the coordinator where a party refused; it names that party."""
    kind = _KIND_BY_NAME.get(refusal.kind)
    if kind is None:
        return RemoteProtocolError("internal error at the party, see its log", party)
    if issubclass(kind, PartyLost):
        return kind(refusal.text, party)
    if issubclass(kind, ProtocolError):
        return RemoteProtocolError(f"refused the request: {refusal.text}", party)
    return _named(kind(_say_who(party) + refusal.text), party)


def join_refusals(errors: Sequence[FederationError]) -> FederationError:
    """One error for what several parties refused: of the first one's kind, with all texts.

    Who refuses for the same reason is named together, and what to do is said once.
    """
    first = errors[0]
    if len(errors) == 1:
        return first
    parties: dict[str, list[str]] = {}
    for error in errors:
        parties.setdefault(reason_of(error), []).append(repr(error.party))
    advice = {reason.partition("; ")[2] for reason in parties}
    shared = "; " + advice.pop() if len(advice) == 1 and "" not in advice else ""
    text = "; ".join(
        f"{'party' if len(names) == 1 else 'parties'} {', '.join(names)}: "
        + reason.removesuffix(shared)
        for reason, names in parties.items()
    )
    text += shared
    joined = _named(type(first)(text), first.party)
    joined.refusals = tuple(errors)
    return joined


def reword(error: FederationError, text: str) -> FederationError:
    """The same refusal of a party in other words."""
    return _named(type(error)(_say_who(error.party) + text), error.party)


def reason_of(error: FederationError) -> str:
    """What a party said, without who says it."""
    return str(error).removeprefix(_say_who(error.party))


def _say_who(party: str) -> str:
    return f"party {party!r}: "


def _named(error: FederationError, party: str) -> FederationError:
    if party:
        error.party = party
    return error


def error_of_coordinator(refusal: Refusal) -> FederationError:
    """The error to raise at a user's client: the coordinator's own."""
    kind = _KIND_BY_NAME.get(refusal.kind)
    if kind is None:
        return TransportError("internal error at the coordinator, see its log")
    if issubclass(kind, PartyLost | RemoteProtocolError):
        return kind(refusal.text, refusal.party)
    return _named(kind(refusal.text), refusal.party)
