"""Decide whether a party answers in the name of a user, and note what it answered.

The coordinator names the user who asks. With the request that the user signed, the party need not
believe it: the signature is checked against the user's certificate, the certificate against the
federation's authority, the key against the pin of the party's owner, and the coordinator's request
against the signed one (`agreement.py`). A signed request begins one run or prediction.

The coordinator has the authority's key, so a certificate alone proves nothing against a coordinator
that makes one. A pin does. What a pinned user asks for is always checked, whatever the rules say.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple, get_args

from fedforest.errors import ConfigurationError, PolicyRefusal
from fedforest.runtime.event_log import log_event
from fedforest.runtime.membership.pins import UserPins
from fedforest.runtime.membership.revocations import KeptRevocations
from fedforest.runtime.messages.orders import decode_order
from fedforest.runtime.messages.party_requests import (
    Asked,
    BeginPrediction,
    BeginRun,
    CountRows,
    FindPlaces,
    GiveShare,
)
from fedforest.runtime.messages.signed_orders import LONGEST_SECONDS, SignedOrder, read_signed
from fedforest.runtime.party.approval import refusal
from fedforest.runtime.party.askers.agreement import KnownAlignments, Wish, agrees
from fedforest.runtime.party.askers.begun_orders import BegunOrders
from fedforest.runtime.party.parts import Begun
from fedforest.runtime.party.policy import AskerProof, DataSetRules
from fedforest.runtime.party.retention.restoring import RestoredGuard
from fedforest.transport.signing import Signer, is_issued, read_signer
from fedforest.transport.tls import CLOCK_TOLERANCE, read_file, read_identity

_LOG = logging.getLogger(__name__)
_LEVELS: tuple[AskerProof, ...] = get_args(AskerProof)  # each demands more than the one before

Agreement = Callable[[str], Begun | None]  # what a run began with, by its id


def needed_proof(rules: Iterable[AskerProof], *, is_pinned: bool) -> AskerProof:
    """Return what shows who asks: the most that any rule demands, and of a pinned user its key."""
    return max([*rules, "pinned" if is_pinned else "vouched"], key=_LEVELS.index)


def is_enough(shown: AskerProof, needed: AskerProof) -> bool:
    """Tell whether a party answers who shows this."""
    return _LEVELS.index(shown) >= _LEVELS.index(needed)


class PartyMemory(NamedTuple):
    """What a party remembers that a request in a user's name is compared with."""

    agreement: Agreement
    standing: KnownAlignments
    revoked: KeptRevocations
    restored: RestoredGuard


class AskerProofs:
    """The users in whose name one party answers.

    Parameters
    ----------
    home : Path
        The party's folder, with its certificates, pins and the requests that began.
    party : str
        The party's name.
    memory : PartyMemory
        The runs, alignments and revocations that it knows of.
    """

    def __init__(
        self,
        home: Path,
        party: str,
        memory: PartyMemory,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._home = home
        self._party = party
        self._memory = memory
        self._clock = clock
        self._pins = UserPins(home)
        self._begun = BegunOrders(home, clock)

    def check(
        self,
        request: Asked,
        rules: Iterable[DataSetRules],
        prediction: bytes = b"",
        trained_on: Collection[str] = (),
    ) -> None:
        """Refuse a request in the name of a user that asked for something else, or for nothing.

        `prediction` is the id of a prediction that begins, `trained_on` are the data sets of its
        model.
        """
        user, what = _asker_of(request), _use_of(request)
        self._memory.restored.check(what)
        if self._memory.revoked.has("user", user):
            raise refusal("asker_revoked", what, user=user)
        is_pinned = user in self._pins
        needed = needed_proof((each.asker_proof for each in rules), is_pinned=is_pinned)
        if not request.proof:
            shown: AskerProof = "vouched"
            if not is_enough(shown, needed):
                raise refusal("asker_unsigned", what, user=user, needed=needed)
        else:
            signer, signed = self._read(request.proof, user, what)
            shown = "pinned" if self._pins.get(user) == signer.fingerprint else "signed"
            if not is_enough(shown, needed):
                if is_pinned:
                    raise refusal("asker_other_key", what, user=user)
                raise refusal("asker_not_pinned", what, user=user)
            self._check_wish(request, signed, prediction, trained_on)
        log_event(_LOG, "asked", kind=type(request).__name__, user=user, proof=shown, what=what)

    def note(self, begun: bytes, request: BeginRun | BeginPrediction) -> None:
        """Remember that a run or a prediction began, so that it does not begin again."""
        if request.proof:
            self._begun.note(begun, read_signed(request.proof).expires)

    def check_new(self, begun: bytes, request: BeginRun | BeginPrediction) -> None:
        """Refuse a signed request that began before, whatever became of it."""
        if request.proof and self._begun.has(begun):
            raise _disproved(request, "it was carried out before; sign a new one")

    def _read(self, proof: bytes, user: str, what: str) -> tuple[Signer, SignedOrder]:
        """Read a signed request, and check all but what it asks for."""
        try:
            signed = read_signed(proof)
            signer = read_signer(signed.certificate)
            is_genuine = signed.is_genuine
            authority = read_file(self._home / "tls" / "authority.pem")
            own = read_identity(read_file(self._home / "tls" / "certificate.pem")).federation
        except ConfigurationError:
            raise _refuse(what, user, "it or its certificate cannot be read") from None
        now = self._clock()
        reasons = {
            "it was signed for another federation": signed.federation != own,
            "its certificate is of another user": (signer.identity.role, signer.identity.name)
            != ("user", user),
            "its signature is not that of its certificate's key": not is_genuine,
            "its certificate is not of this federation, or has expired": not is_issued(
                signed.certificate, authority, now
            ),
            "it was signed in the future; compare the clocks": signed.made
            > now + CLOCK_TOLERANCE.total_seconds(),
            "it may begin for too long": signed.expires - signed.made > LONGEST_SECONDS,
        }
        for reason, is_so in reasons.items():
            if is_so:
                raise _refuse(what, user, reason)
        return signer, signed

    def _check_wish(
        self,
        request: Asked,
        signed: SignedOrder,
        prediction: bytes,
        trained_on: Collection[str],
    ) -> None:
        user, what = _asker_of(request), _use_of(request)
        whole = self._memory.agreement(signed.id.hex())
        if signed.expires <= self._clock() and whole is None:  # what has begun goes on
            raise _refuse(what, user, "its time is over; sign a new one")
        if signed.made <= self._memory.restored.restored_at:  # it may have been carried out
            raise _refuse(what, user, "it is older than the restored party; sign a new one")
        try:
            order = decode_order(signed.order)
            wish = Wish(order, signed.id, self._party, self._memory.standing, trained_on)
            is_it = getattr(order, "asker", "") == user
            is_it = is_it and agrees(wish, request, prediction, whole)
        except ConfigurationError:
            is_it = False
        if not is_it:
            raise _refuse(what, user, "the user asked for something else than the coordinator")


def _asker_of(request: Asked) -> str:
    return request.terms.asker if isinstance(request, BeginRun) else request.asker


def _use_of(request: Asked) -> str:
    """Return what a refusal calls a request."""
    if isinstance(request, CountRows | FindPlaces | BeginPrediction):
        return "prediction"
    return "export" if isinstance(request, GiveShare) else "run"


def _disproved(request: Asked, reason: str) -> PolicyRefusal:
    return _refuse(_use_of(request), _asker_of(request), reason)


def _refuse(what: str, user: str, reason: str) -> PolicyRefusal:
    return refusal("asker_proof", what, user=user, statement=reason)
