"""Which errors travel to a peer, and as what they are raised there.

Errors of this package travel by name with their public text. Everything else is a bug whose text
may hold anything: it stays in the log of whoever made it.
"""

import re

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
from fedforest.transport.frames import Refusal

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
_LONGEST_TEXT = 500
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
        text = _QUOTED.sub("(named in its log)", text)
    if hides_names:
        text = next((public for k, public in _PUBLIC_TEXT.items() if isinstance(error, k)), text)
    party = error.party if isinstance(error, _NAMES_A_PARTY) else ""
    return Refusal(request_id, kind, text[:_LONGEST_TEXT], party[:64])


def error_of_party(refusal: Refusal, party: str) -> FederationError:
    """The error to raise at the coordinator where a party refused; it names that party."""
    kind = _KIND_BY_NAME.get(refusal.kind)
    if kind is None:
        return RemoteProtocolError("internal error at the party, see its log", party)
    if issubclass(kind, PartyLost):
        return kind(refusal.text, party)
    if issubclass(kind, ProtocolError):
        return RemoteProtocolError(f"refused the request: {refusal.text}", party)
    return kind(f"party {party!r}: {refusal.text}")


def error_of_coordinator(refusal: Refusal) -> FederationError:
    """The error to raise at a user's client: the coordinator's own."""
    kind = _KIND_BY_NAME.get(refusal.kind)
    if kind is None:
        return TransportError("internal error at the coordinator, see its log")
    if issubclass(kind, PartyLost | RemoteProtocolError):
        return kind(refusal.text, refusal.party)
    return kind(refusal.text)
