"""The endpoints of `fedforest serve`: models, and predictions of rows.

A few rows are predicted in the event loop, in microseconds; many in a thread, so that others need
not wait.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedforest.web.api.guard import Guard
from fedforest.web.api.problems import HANDLERS, Problem
from fedforest.web.serving.description import describe_api
from fedforest.web.serving.model import PredictionBody, ServedModel

FEW_ROWS = 64  # that are predicted without a thread

_BODIES = msgspec.json.Decoder(PredictionBody)
_JSON = msgspec.json.Encoder()


def make_app(models: Sequence[ServedModel], guard: Guard) -> Starlette:
    """Return the application that answers about these models."""
    served = {model.name: model for model in models}

    def find(request: Request) -> ServedModel:
        name = request.path_params["model"]
        if name not in served:
            raise Problem(404, "there is no such model; GET /v1/models lists those that are served")
        return served[name]

    async def list_models(request: Request) -> Response:
        guard.admit(request, "read")
        return respond({"models": [model.describe() for model in served.values()]})

    async def show_model(request: Request) -> Response:
        guard.admit(request, "read")
        return respond(find(request).describe())

    async def predict(request: Request) -> Response:
        guard.admit(request, "predict")
        with guard:
            model, rows = find(request), read_rows(await guard.read_body(request))
            if len(rows) > guard.bounds.rows:
                raise Problem(422, f"a request has at most {guard.bounds.rows:,} rows")
            if len(rows) <= FEW_ROWS:
                return respond(model.answer(rows))
            return await run_sync(lambda: respond(model.answer(rows)))

    async def describe(request: Request) -> Response:
        guard.admit(request, "read")
        return respond(describe_api())

    endpoints: dict[str, tuple[Callable[[Request], Any], str]] = {
        "/v1/models/{model}/predictions": (predict, "POST"),
        "/v1/models": (list_models, "GET"),
        "/v1/models/{model}": (show_model, "GET"),
        "/v1/openapi.json": (describe, "GET"),
    }
    routes = [
        Route(path, endpoint, methods=[method]) for path, (endpoint, method) in endpoints.items()
    ]
    return Starlette(routes=routes, exception_handlers=HANDLERS)


def read_rows(body: bytes) -> list[Any]:
    """Return the rows of a prediction's body; raises `Problem`."""
    try:
        return _BODIES.decode(body).rows
    except msgspec.ValidationError as error:
        raise Problem(422, f'{error}; send {{"rows": [[...], ...]}}') from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "the body is not valid JSON") from None


def respond(content: Any) -> Response:
    """Return JSON that no cache keeps."""
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(_JSON.encode(content), media_type="application/json", headers=headers)
