"""Requests of users signed with the keys of their certificates.

A user signs what it asks for, in which federation, and until when it may begin. The coordinator
passes the signed request on to parties as it is. Its id is a digest of what was signed, and the ids
of the run or prediction that it begins follow from it: so parties carry out each once. A request
without a signature, as web tokens make it, is vouched for by the coordinator alone.
"""

import secrets
import time
from hashlib import blake2b
from typing import Annotated, NamedTuple

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.envelope import RUN_ID_BYTES, derive_part
from fedforest.runtime.messages.orders import (
    AnyOrder,
    AnyRun,
    CompleteModel,
    Order,
    decode_order,
    encode_order,
    replace_seed,
)
from fedforest.transport.signing import is_signed, sign
from fedforest.transport.tls import Credentials

PURPOSE = b"fedforest order 1"
RUN_SECONDS = 7 * 86_400.0  # for a run to begin: it may wait for parties
ANSWER_SECONDS = 3600.0  # for anything else to be answered
LONGEST_SECONDS = 31 * 86_400.0  # that a party takes

_SEED_BITS = 63
Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]  # seconds since 1970


class SignedOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A request, what its user signed beside it, and the signature."""

    order: bytes  # as `encode_order` writes it
    federation: Annotated[str, msgspec.Meta(max_length=63)]
    made: Moment
    expires: Moment  # it begins nothing from then on
    nonce: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    certificate: Annotated[bytes, msgspec.Meta(max_length=8192)]  # of the user, PEM
    signature: Annotated[bytes, msgspec.Meta(max_length=128)] = b""

    @property
    def statement(self) -> bytes:
        """The bytes that are signed."""
        said = (self.federation, self.made, self.expires, self.nonce, _digest(self.order, 32))
        return msgspec.msgpack.encode(said)

    @property
    def id(self) -> bytes:
        """The id of the run that the request begins, and of all that follows from it."""
        return _digest(self.statement, RUN_ID_BYTES)

    @property
    def is_genuine(self) -> bool:
        """Whether the key of the certificate signed it."""
        return is_signed(self.certificate, PURPOSE, self.statement, self.signature)


def _digest(data: bytes, size: int) -> bytes:
    return blake2b(data, digest_size=size, person=PURPOSE[:16]).digest()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(SignedOrder)
_BEGINNING = msgspec.msgpack.encode("type") + msgspec.msgpack.encode("SignedOrder")


def sign_request(order: AnyOrder, credentials: Credentials, now: float | None = None) -> bytes:
    """Sign a request with a user's key; one that parties never see is only encoded."""
    if not isinstance(order, Order | CompleteModel):
        return encode_order(order)
    made = time.time() if now is None else now
    life = RUN_SECONDS if isinstance(order, AnyRun) else ANSWER_SECONDS
    identity = credentials.identity
    if isinstance(order, AnyRun) and getattr(order, "seed", 0) is None:
        order = replace_seed(order, secrets.randbits(_SEED_BITS))
    blank = SignedOrder(
        order=encode_order(msgspec.structs.replace(order, asker=identity.name)),
        federation=identity.federation,
        made=made,
        expires=min(made + life, credentials.expires.timestamp()),
        nonce=secrets.token_bytes(16),
        certificate=credentials.certificate,
    )
    signature = sign(credentials.key, PURPOSE, blank.statement)
    return _ENCODER.encode(msgspec.structs.replace(blank, signature=signature))


def read_signed(data: bytes | memoryview) -> SignedOrder:
    """Decode a signed request; raises `ConfigurationError` if it is none."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError.stating("this is no signed order") from None


class Submission(NamedTuple):
    """A request as a coordinator got it: what its user asks for, and the proof of it."""

    order: AnyOrder
    proof: bytes = b""  # the signed request; empty if the coordinator alone vouches for the user
    id: bytes | None = None  # of a signed request

    def part(self, name: str) -> bytes:
        """Return the id of something that the request begins, drawn if it is not signed."""
        return secrets.token_bytes(RUN_ID_BYTES) if self.id is None else derive_part(self.id, name)


def read_submission(data: bytes) -> Submission:
    """Decode a request, signed or not; raises `ConfigurationError` if it is invalid."""
    if not data[1:].startswith(_BEGINNING):  # behind one byte that counts the fields
        return Submission(decode_order(data))
    signed = read_signed(data)
    return Submission(decode_order(signed.order), data, signed.id)


def check_asker(proof: bytes, order: AnyOrder, user: str) -> bytes:
    """Refuse to pass on what another user than the sender signed; return the id of the request."""
    signed = read_signed(proof)
    if decode_order(signed.order) != order or not signed.is_genuine:
        raise ConfigurationError(f"this order is not signed by user {user}, who sent it")
    return signed.id
