"""Models over HTTP: listed, shown, withdrawn, and asked for predictions."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fedforest.runtime.messages.orders import (
    ListModels,
    ShowModel,
    WithdrawModel,
)
from fedforest.runtime.messages.results import ModelList, Predictions
from fedforest.web.api.batching import place_found
from fedforest.web.api.endpoints import Endpoint
from fedforest.web.api.problems import Problem
from fedforest.web.federation.answers import (
    ModelSummaries,
    ModelSummary,
    PredictionAnswer,
    SealedBlock,
)
from fedforest.web.federation.app import FederationApi, read_json, respond
from fedforest.web.federation.bodies import PredictionRequest
from fedforest.web.federation.run_endpoints import read_id

_BODIES = msgspec.json.Decoder(PredictionRequest)


class ModelEndpoints:
    """Answers about models."""

    def __init__(self, api: FederationApi) -> None:
        self._api = api

    def endpoints(self) -> list[Endpoint]:
        """List the endpoints."""
        predict = "Predict rows of a vertical model, which its parties do together."
        withdraw = "Withdraw a model for good: from the next request on it answers nothing."
        return [
            Endpoint(
                "GET", "/v1/models", "read", "listModels", "List models.", ModelSummaries,
                self.list,
            ),
            Endpoint(
                "GET", "/v1/models/{model}", "read", "showModel", "Show a model.", ModelSummary,
                self.show, problems=(422,),
            ),
            Endpoint(
                "POST", "/v1/models/{model}/withdraw", "order", "withdrawModel", withdraw,
                ModelSummary, self.withdraw, problems=(422,),
            ),
            Endpoint(
                "POST", "/v1/models/{model}/predictions", "predict", "predict", predict,
                PredictionAnswer, self.predict, body=PredictionRequest, problems=(409, 502),
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """List the models that the user may see."""
        user = self._api.admit(request, "read")
        told = await self._api.ask(user, ListModels(), ModelList)
        return respond(ModelSummaries([ModelSummary.of(model) for model in told.models]))

    async def show(self, request: Request) -> Response:
        """Show a model."""
        user = self._api.admit(request, "read")
        order = ShowModel(model=read_id(request, "model"))
        told = await self._api.ask(user, order, ModelList)
        return respond(ModelSummary.of(told.models[0]))

    async def withdraw(self, request: Request) -> Response:
        """Withdraw a model."""
        user = self._api.admit(request, "order")
        order = WithdrawModel(model=read_id(request, "model"))
        told = await self._api.ask(user, order, ModelList)
        return respond(ModelSummary.of(told.models[0]))

    async def predict(self, request: Request) -> Response:
        """Predict rows, together with those of others that ask at the same time."""
        user = self._api.admit(request, "predict")
        with self._api.guard as guard:
            model = read_id(request, "model")
            asked = read_json(await guard.read_body(request), _BODIES)
            if asked.n_rows > guard.bounds.rows:
                raise Problem(422, f"a request has at most {guard.bounds.rows:,} rows")
            told = await self._api.batches.predict(user, asked.order(model))
            return respond(describe_predictions(model, asked, told))


def describe_predictions(
    model: str, asked: PredictionRequest, told: Predictions
) -> PredictionAnswer:
    """Return predictions in the order of the request; null where an id has none."""
    about: dict[str, Any] = {"model": model, "ids": asked.ids, "rows": asked.rows}
    about["alignment"] = asked.alignment
    if told.sealed:
        blocks = [SealedBlock(key, data) for key, data in told.sealed]
        return PredictionAnswer(**about, predictions=[], classes=told.classes, sealed=blocks)
    votes, classes = told.read(), told.classes
    if classes is None:
        return PredictionAnswer(
            **about, predictions=place_found(votes[:, 0].tolist(), told, asked.n_rows)
        )
    best = [classes[number] for number in votes.argmax(axis=1).tolist()]
    return PredictionAnswer(
        **about,
        predictions=place_found(best, told, asked.n_rows),
        classes=classes,
        probabilities=place_found(votes.tolist(), told, asked.n_rows),
    )
