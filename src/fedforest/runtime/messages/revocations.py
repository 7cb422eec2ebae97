"""A revocation as it travels: whom the authority of a federation let in no more."""

from typing import Annotated

import msgspec


class Revocation(msgspec.Struct, frozen=True, array_like=True):
    """A member that was revoked, which is for ever, signed by the authority of the federation."""

    identity: Annotated[str, msgspec.Meta(max_length=200)]
    signature: Annotated[bytes, msgspec.Meta(max_length=128)]


Revocations = Annotated[list[Revocation], msgspec.Meta(max_length=10_000)]
