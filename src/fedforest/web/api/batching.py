"""Predictions of callers that ask at the same time, answered by one exchange with the parties.

A caller that finds nothing under way sets out at once. Whoever comes while others of the same user,
model and manner are under way waits for their answer, and then all of these set out together; a
caller that waited too long is refused. A batch that is refused is asked again one by one, so that
one caller's mistake is not another's.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from msgspec.structs import replace

from fedforest.errors import ConfigurationError, DataError, FederationError, PolicyRefusal
from fedforest.runtime.messages.orders import PredictVertical
from fedforest.runtime.messages.results import Predictions
from fedforest.web.api.door import Door, Serve
from fedforest.web.api.problems import Problem

Ask = Callable[[str, PredictVertical], Awaitable[Predictions]]
MOST_ROWS = 50_000  # of one batch
MOST_UNDERWAY = 2  # batches of one manner: parties work on one while another is read
WAIT_SECONDS = 10.0
_THREADS = 16  # that ask the coordinator
_OF_ONE = ConfigurationError | DataError | PolicyRefusal  # which one caller may have caused


class _Caller(NamedTuple):
    """A request that waits, and where its answer goes."""

    order: PredictVertical
    answer: "asyncio.Future[Predictions]"
    deadline: float

    @property
    def n_rows(self) -> int:
        ids = self.order.ids
        return len(ids[0] if ids else self.order.rows or ())


@dataclass(slots=True)
class _Manner:
    """The callers of one user, model and manner."""

    waiting: deque[_Caller] = field(default_factory=deque)
    n_underway: int = 0


class AskingThreads:
    """Asks the coordinator in the name of users, on threads of its own."""

    def __init__(self, serve: Serve, federation: str) -> None:
        self._serve = serve
        self._federation = federation

    @cached_property
    def _threads(self) -> CapacityLimiter:
        return CapacityLimiter(_THREADS)  # of the event loop that asks first

    async def predict(self, user: str, order: PredictVertical) -> Predictions:
        """Send the request of a user, and return its predictions."""
        ask = Door(self._serve, self._federation, user).ask
        return await run_sync(partial(ask, order, Predictions), limiter=self._threads)


class PredictionBatches:
    """Gathers callers and asks for them; all on one event loop."""

    def __init__(self, ask: Ask, wait_seconds: float = WAIT_SECONDS) -> None:
        self._ask = ask
        self._wait_seconds = wait_seconds
        self._manners: dict[tuple[object, ...], _Manner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.n_batches = 0  # that set out so far

    async def predict(self, user: str, order: PredictVertical) -> Predictions:
        """Return the predictions of a request."""
        if order.key:  # votes are sealed for one asker
            return await self._ask(user, order)
        loop = asyncio.get_running_loop()
        key = (user, *_manner_of(order))
        manner = self._manners.setdefault(key, _Manner())
        caller = _Caller(order, loop.create_future(), loop.time() + self._wait_seconds)
        manner.waiting.append(caller)
        self._set_out(key, manner)
        try:
            return await caller.answer
        finally:
            if not manner.n_underway and not manner.waiting:
                self._manners.pop(key, None)

    def _set_out(self, key: tuple[object, ...], manner: _Manner) -> None:
        while manner.waiting and manner.n_underway < MOST_UNDERWAY:
            batch = self._gather(manner)
            if not batch:
                continue
            manner.n_underway += 1
            self.n_batches += 1
            task = asyncio.ensure_future(self._carry(key, manner, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _gather(self, manner: _Manner) -> list[_Caller]:
        """Take callers from the front, as many as one batch may have."""
        now, n_rows = asyncio.get_running_loop().time(), 0
        batch: list[_Caller] = []
        while manner.waiting:
            caller = manner.waiting[0]
            if caller.answer.done():  # its connection ended
                manner.waiting.popleft()
                continue
            if caller.deadline < now:
                manner.waiting.popleft()
                busy = Problem(503, "parties did not answer in time; try again", Retry_After="1")
                caller.answer.set_exception(busy)
                continue
            if batch and n_rows + caller.n_rows > MOST_ROWS:
                break
            batch.append(manner.waiting.popleft())
            n_rows += caller.n_rows
        return batch

    async def _carry(self, key: tuple[object, ...], manner: _Manner, batch: list[_Caller]) -> None:
        try:
            await self._answer(str(key[0]), batch)
        finally:
            manner.n_underway -= 1
            self._set_out(key, manner)

    async def _answer(self, user: str, batch: list[_Caller]) -> None:
        try:
            told = await self._ask(user, _merge([caller.order for caller in batch]))
            parts = _divide(told, [caller.n_rows for caller in batch])
        except FederationError as error:
            if len(batch) > 1 and isinstance(error, _OF_ONE):
                for caller in batch:
                    await self._answer(user, [caller])
                return
            _fail(batch, error)
        except BaseException as error:  # a bug: every caller is told that there is one
            _fail(batch, error)
            raise
        else:
            for caller, part in zip(batch, parts, strict=True):
                if not caller.answer.done():
                    caller.answer.set_result(part)


def _fail(batch: list[_Caller], error: BaseException) -> None:
    for caller in batch:
        if not caller.answer.done():
            bare = error.bare() if isinstance(error, FederationError) else error
            caller.answer.set_exception(bare)


def _manner_of(order: PredictVertical) -> tuple[object, ...]:
    data = tuple(sorted(order.data.items()))
    n_id_columns = 0 if order.ids is None else len(order.ids)
    return (order.model, data, order.align, order.lookahead, order.id_party, n_id_columns)


def _merge(orders: list[PredictVertical]) -> PredictVertical:
    first = orders[0]
    if len(orders) == 1:
        return first
    if first.ids is not None:
        columns = zip(*(order.ids or () for order in orders), strict=True)
        return replace(first, ids=[list(chain.from_iterable(parts)) for parts in columns])
    return replace(first, rows=[row for order in orders for row in order.rows or ()])


def place_found(values: Sequence[Any], told: Predictions, n_asked: int) -> list[Any]:
    """Put values where their ids were found, and None elsewhere."""
    if told.found is None:
        return list(values)
    left = iter(values)
    is_found = np.unpackbits(np.frombuffer(told.found, np.uint8), count=n_asked).tolist()
    return [next(left) if found else None for found in is_found]


def _divide(told: Predictions, lengths: list[int]) -> list[Predictions]:
    """Cut the predictions of a batch into those of its callers."""
    if len(lengths) == 1:
        return [told]
    values, found = told.read(), None
    n_values = lengths
    if told.found is not None:
        found = np.unpackbits(np.frombuffer(told.found, np.uint8), count=sum(lengths))
        cuts = np.split(found, np.cumsum(lengths)[:-1])
        n_values = [int(cut.sum()) for cut in cuts]
    parts = []
    for number, piece in enumerate(np.split(values, np.cumsum(n_values)[:-1])):
        own = None if found is None else np.packbits(cuts[number]).tobytes()
        part = Predictions.of(piece, told.alignment)
        parts.append(replace(part, found=own, classes=told.classes))
    return parts
