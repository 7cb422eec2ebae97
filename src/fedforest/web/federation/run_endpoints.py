"""Runs over HTTP: listed, shown, ordered from run files, watched, steered."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fedforest.errors import FederationError
from fedforest.estimators.run_files import order_run
from fedforest.runtime.client.run_files import read_run_document
from fedforest.runtime.messages.orders import (
    CancelRun,
    ListRuns,
    ResumeRun,
    RunFilter,
    ShowRun,
    StateName,
)
from fedforest.runtime.messages.results import RunDetails, RunList
from fedforest.runtime.toml_documents import Document, Places, parse_document
from fedforest.web.api.door import Door
from fedforest.web.api.endpoints import Endpoint, QueryParameter
from fedforest.web.api.guard import kind_of
from fedforest.web.api.problems import Problem
from fedforest.web.federation.answers import RunBegun, RunEntries, RunEntry, RunPage
from fedforest.web.federation.app import MOST_WATCHERS, FederationApi, read_json, respond
from fedforest.web.federation.bodies import RunDocument, SteeringRequest

TOML = "application/toml"
_JSON = "application/json"
_STATES: tuple[str, ...] = get_args(StateName)
_ENDED = ("finished", "failed", "cancelled", "paused")
_LOOK_SECONDS = 0.5
_REFUSAL_SECONDS = 2.0
_LONGEST_WATCH = 3600.0  # seconds; a browser or curl asks again
_STEERING = msgspec.json.Decoder(SteeringRequest)
_NAME = {"type": "string", "maxLength": 64}


class RunEndpoints:
    """Answers about runs."""

    def __init__(self, api: FederationApi) -> None:
        self._api = api

    def endpoints(self) -> list[Endpoint]:
        """List the endpoints."""
        filters = (
            QueryParameter("state", {"enum": list(_STATES)}, "Runs in this state."),
            QueryParameter("user", _NAME, "Runs of this user."),
            QueryParameter("name", _NAME, "Runs of this name; * stands for any letters."),
        )
        begin = "Order the run that a run.toml describes, as TOML or as JSON with the same keys."
        watch = "Watch a run by server-sent events, each a RunEntry, until it ends."
        return [
            Endpoint(
                "GET", "/v1/runs", "read", "listRuns", "List runs.", RunEntries, self.list,
                query=filters, problems=(422,),
            ),
            Endpoint(
                "POST", "/v1/runs", "order", "orderRun", begin, RunBegun, self.begin,
                body=RunDocument, body_kinds=(_JSON, TOML), status=202, problems=(502,),
            ),
            Endpoint(
                "GET", "/v1/runs/{run}", "read", "showRun", "Show a run.", RunPage, self.show,
                problems=(422,),
            ),
            Endpoint(
                "GET", "/v1/runs/{run}/events", "read", "watchRun", watch, None, self.watch,
                answer_kind="text/event-stream", problems=(422,),
            ),
            Endpoint(
                "POST", "/v1/runs/{run}/cancel", "order", "cancelRun", "Cancel a run.",
                RunEntries, self.cancel, problems=(422,),
            ),
            Endpoint(
                "POST", "/v1/runs/{run}/resume", "order", "resumeRun",
                "Resume a paused run, without some parties if that is possible.", RunBegun,
                self.resume, body=SteeringRequest, status=202, problems=(502,),
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """List the runs that the user may see."""
        user = self._api.admit(request, "read")
        told = await self._api.ask(user, ListRuns(_read_filter(request)), RunList)
        return respond(RunEntries([RunEntry.of(run) for run in told.runs]))

    async def show(self, request: Request) -> Response:
        """Show a run."""
        user = self._api.admit(request, "read")
        run = read_id(request, "run")
        return respond(RunPage.of_details(await self._ask_about(user, run)))

    async def begin(self, request: Request) -> Response:
        """Order a run; it goes on by itself."""
        user = self._api.admit(request, "order")
        with self._api.guard:
            data = await self._api.guard.read_body(request, (_JSON, TOML))
            door, is_toml = self._api.door(user), kind_of(request) == TOML
            run = await self._api.call(partial(_begin, door, data, is_toml=is_toml))
        return respond(RunBegun(run), 202, location=f"/v1/runs/{run}")

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        user = self._api.admit(request, "order")
        told = await self._api.ask(user, CancelRun(run=read_id(request, "run")), RunList)
        return respond(RunEntries([RunEntry.of(run) for run in told.runs]))

    async def resume(self, request: Request) -> Response:
        """Resume a run; it goes on by itself."""
        user = self._api.admit(request, "order")
        run = read_id(request, "run")
        with self._api.guard:
            asked = read_json(await self._api.guard.read_body(request), _STEERING)
            order = ResumeRun(run=run, without=asked.without)
            await self._api.call(partial(_resume, self._api.door(user), order))
        return respond(RunBegun(run), 202, location=f"/v1/runs/{run}")

    async def watch(self, request: Request) -> Response:
        """Send the state of a run whenever it changes, until it ends."""
        user = self._api.admit(request, "read")
        run = read_id(request, "run")
        first = await self._ask_about(user, run)
        if self._api.n_watching >= MOST_WATCHERS:
            raise Problem(503, "too many watch runs; try again", Retry_After="5")
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        told = self._tell(user, run, first)
        return StreamingResponse(told, media_type="text/event-stream", headers=headers)

    async def _tell(self, user: str, run: str, first: RunDetails) -> AsyncIterator[bytes]:
        self._api.n_watching += 1
        loop = asyncio.get_running_loop()
        end, before, details = loop.time() + _LONGEST_WATCH, b"", first
        try:
            while loop.time() < end:
                now = msgspec.json.encode(RunEntry.of(details.state))
                if now != before:
                    yield b"event: state\ndata: " + now + b"\n\n"
                before = now
                if details.state.state in _ENDED:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
                try:  # the user may have been revoked, or the run deleted
                    details = await self._ask_about(user, run)
                except FederationError:
                    return
        finally:
            self._api.n_watching -= 1

    async def _ask_about(self, user: str, run: str) -> RunDetails:
        return await self._api.ask(user, ShowRun(run=run), RunDetails)


def read_id(request: Request, name: str) -> str:
    """Return the id of a run or model in the path; anything else names none."""
    text: str = request.path_params[name]
    if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
        raise Problem(404, f"the id of a {name} has 32 hexadecimal digits")
    return text


def _read_filter(request: Request) -> RunFilter:
    known = {"state", "user", "name"}
    asked = dict(request.query_params)
    if unknown := asked.keys() - known:
        raise Problem(422, f"there is no parameter {sorted(unknown)[0]!r}")
    try:
        states = [asked["state"]] if "state" in asked else []
        content = {"states": states, "user": asked.get("user", ""), "name": asked.get("name", "")}
        return msgspec.convert(content, RunFilter)
    except msgspec.ValidationError as error:
        raise Problem(422, str(error)) from None


def _begin(door: Door, data: bytes, *, is_toml: bool) -> str:
    file = read_run_document(_read_document(data, is_toml=is_toml))
    order = order_run(file)
    try:
        return door.begin(order)
    except FederationError as error:
        raise file.point_at(error) from None


def _read_document(data: bytes, *, is_toml: bool) -> Document:
    path = Path("run.toml" if is_toml else "run")
    if is_toml:
        return parse_document(data, path)
    try:
        content: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(400, "the body is not valid JSON") from None
    if not isinstance(content, dict):
        raise Problem(422, "a run is an object with the keys of a run.toml")
    return Document(Places(path, {}), _without_nulls(content))


def _without_nulls(content: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is null: TOML has no such value."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in content.items()
        if value is not None
    }


def _resume(door: Door, order: ResumeRun) -> None:
    """Send the request; raises if it is refused, and leaves the run going otherwise."""
    outcome: Future[None] = Future()

    def send() -> None:
        try:
            next(door.events(order), None)
        except FederationError as error:
            outcome.set_exception(error.bare())
        else:
            outcome.set_result(None)

    threading.Thread(target=send, name="fedforest-resume", daemon=True).start()
    with contextlib.suppress(TimeoutError):  # it waits for its turn, or for parties
        outcome.result(_REFUSAL_SECONDS)
