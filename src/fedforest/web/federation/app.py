"""The HTTP API of a federation, in its coordinator's process: the requests that users make anyway.

A token stands for one user of the federation. Its scopes make less of what the user's role allows,
and a user that was revoked has none. Whatever is asked goes through the coordinator's door.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, TypeVar

import msgspec
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from fedforest.runtime.membership.service_tokens import Scope
from fedforest.runtime.membership.user_roles import UserRole
from fedforest.runtime.messages.orders import AnyOrder
from fedforest.web.api.batching import AskingThreads, PredictionBatches
from fedforest.web.api.door import Door, Serve
from fedforest.web.api.guard import Guard
from fedforest.web.api.problems import Problem

Result = TypeVar("Result")
Body = TypeVar("Body", bound=msgspec.Struct)
_JSON = msgspec.json.Encoder()
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_THREADS = 16  # that ask the coordinator
MOST_WATCHERS = 64


class FederationApi:
    """What the endpoints of one coordinator share."""

    def __init__(
        self,
        serve: Serve,
        federation: str,
        guard: Guard,
        roles: Callable[[], Mapping[str, UserRole]] | None,
        batches: PredictionBatches | None = None,
    ) -> None:
        self._serve = serve
        self.federation = federation
        self.guard = guard
        self._roles = roles  # of users; None: unknown
        self.batches = batches or PredictionBatches(AskingThreads(serve, federation).predict)
        self.n_watching = 0

    @cached_property
    def _threads(self) -> CapacityLimiter:
        return CapacityLimiter(_THREADS)  # of the event loop that asks first

    def admit(self, request: Request, scope: Scope) -> str:
        """Return the user whose token a request has; raises `Problem`."""
        token = self.guard.admit(request, scope)
        if not token.user or (self._roles is not None and token.user not in self._roles()):
            raise Problem(403, f"the token {token.name!r} stands for no user of this federation")
        return token.user

    async def ask(self, user: str, order: AnyOrder, kind: type[Result]) -> Result:
        """Send the request of a user on another thread, and return its result."""
        return await self.call(partial(self.door(user).ask, order, kind))

    async def call(self, work: Callable[[], Result]) -> Result:
        """Do on another thread what waits for parties or the disk."""
        return await run_sync(work, limiter=self._threads)

    def door(self, user: str) -> Door:
        """Return what sends the requests of a user."""
        return Door(self._serve, self.federation, user)


def read_json(data: bytes, decoder: "msgspec.json.Decoder[Body]") -> Body:
    """Decode a body; raises `Problem`."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Problem(422, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "the body is not valid JSON") from None


def respond(content: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON that no cache keeps."""
    kind = "application/json"
    return Response(_JSON.encode(content), status, _HEADERS | headers, media_type=kind)
