"""The shards of a table as actors of Dask workers, and the cluster that the workers belong to.

This is the only module that knows Dask. Each call is a task on the worker that has its shard; what
it returns stays there until it is collected or another call takes it. A worker runs any code that
it is sent: a cluster belongs to one organisation.
"""

import operator
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from fedforest.errors import ConfigurationError, FederationError, ShardsLost
from fedforest.extras import import_extra
from fedforest.tree.shards.shard import Shard
from fedforest.tree.table.pieces import TableSource

T = TypeVar("T")

CONNECT_SECONDS = 30.0  # to wait for a scheduler and its first worker
_LOOK_SECONDS = 1.0  # between two looks for lost workers while a call runs
_SENT_APART = 1 << 16  # bytes of arguments; longer ones do not pass the scheduler's task queue


class _Actor(NamedTuple):
    """Where a shard is."""

    worker: str
    future: Any


class DaskCluster:
    """The workers of a Dask cluster, for the tables of one party."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def engine(self) -> "DaskEngine":
        """Return an engine for one table: a shard for every thread of the workers."""
        return DaskEngine(self.client)

    def run(self, function: Callable[[], T]) -> dict[str, T]:
        """Call a function once in each worker process; results by the address of the worker."""
        results: dict[str, T] = self.client.run(function)
        return results


@contextmanager
def start_cluster(n_workers: int) -> Iterator[DaskCluster]:
    """Start worker processes on this machine, which end with the context."""
    distributed = _import_dask()
    processes = distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # of health checks; without it, a fixed port
        scheduler_kwargs={"dashboard": False},
        worker_dashboard_address=None,
        memory_limit=0,  # arrays of actors cannot be moved to the disk
    )
    with processes, distributed.Client(processes, set_as_default=False) as client:
        yield DaskCluster(client)


@contextmanager
def join_cluster(address: str) -> Iterator[DaskCluster]:
    """Use the workers of a scheduler; raises `ConfigurationError` if there are none."""
    try:
        client = _import_dask().Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # its text may name hosts, which are the user's own
        raise ConfigurationError(
            f"compute: no Dask scheduler answers at {address} ({type(error).__name__}); start one "
            "with `dask scheduler`, or use compute='dask' for processes of this machine",
            key="compute",
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise ConfigurationError(
                f"compute: the Dask scheduler at {address} has no workers; start some with "
                "`dask worker`",
                key="compute",
            ) from None
        yield DaskCluster(client)


class DaskEngine:
    """Keeps the shards of one table in actors (`tree/shards/engine.py`)."""

    def __init__(self, client: Any) -> None:
        self._client, self._name = client, f"fedforest-{uuid4().hex}"
        self._n_shards: int = max(1, sum(client.nthreads().values()))
        self._actors: dict[int, _Actor] = {}
        self._n_built = 0

    @property
    def n_shards(self) -> int:
        """The number of shards."""
        return self._n_shards

    def build(self, shard: int, table: TableSource, first_row: int, n_rows: int) -> None:
        """Make a shard on the worker that has the fewest, for its threads."""
        threads = self._client.nthreads()
        self._actors.pop(shard, None)
        if not threads:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            threads = self._client.nthreads()
        load = dict.fromkeys(threads, 0)
        for actor in self._actors.values():
            if actor.worker in load:
                load[actor.worker] += 1
        worker = min(sorted(load), key=lambda address: load[address] / threads[address])
        self._n_built += 1
        content = self._send(pickle.dumps((table, first_row, n_rows), protocol=5), worker)
        future = self._client.submit(
            _make_shard,
            content,
            key=f"{self._name}-{shard}-{self._n_built}",
            workers=[worker],
            allow_other_workers=False,
            actor=True,
        )
        self._actors[shard] = _Actor(worker, future)

    def ask(self, shard: int, method: str, *arguments: Any) -> Any:
        """Begin a call on the worker that has the shard."""
        actor = self._actors[shard]
        plain = [None if self._has_handles(each) else each for each in arguments]
        handles = {n: each for n, each in enumerate(arguments) if self._has_handles(each)}
        content = self._send(pickle.dumps(plain, protocol=5), actor.worker)
        return self._submit(_call_shard, actor, method, content, handles)

    def add(self, handles: Sequence[Any]) -> Any:
        """Begin to add up arrays, two by two."""
        level = list(handles)
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            sums = [self._client.submit(operator.add, *pair, pure=False) for pair in pairs]
            level = [*sums, *level[len(level) & ~1 :]]
        return level[0]

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for results and return them."""
        wait, waiting = _import_dask().wait, list(handles)
        while waiting:
            try:
                with self._client.as_current():
                    wait(waiting, timeout=_LOOK_SECONDS)
                waiting = []
            except TimeoutError:
                self._check_workers()
                waiting = [handle for handle in waiting if not handle.done()]
        if any(handle.status != "finished" for handle in handles):
            self._check_workers()
            raise self._failure(handles)
        try:
            return list(self._client.gather(list(handles)))
        except FederationError:
            raise
        except Exception:  # a worker may have been lost since
            self._check_workers()
            raise

    def _submit(self, function: Any, actor: _Actor, *arguments: Any) -> Any:
        return self._client.submit(
            function,
            actor.future,
            *arguments,
            workers=[actor.worker],
            allow_other_workers=False,
            pure=False,
        )

    def _has_handles(self, argument: Any) -> bool:
        of_list = argument[0] if isinstance(argument, list) and argument else argument
        return isinstance(of_list, _import_dask().Future)

    def _send(self, content: bytes, worker: str) -> Any:
        """Send long arguments to the worker beforehand."""
        if len(content) < _SENT_APART:
            return content
        return self._client.scatter(content, workers=[worker], hash=False)

    def _check_workers(self) -> None:
        """Raise `ShardsLost` if workers that had shards are gone."""
        present = self._client.nthreads()
        lost = [shard for shard, actor in self._actors.items() if actor.worker not in present]
        if lost:
            raise ShardsLost.numbered(lost)

    def _failure(self, handles: Sequence[Any]) -> BaseException:
        """Return the error of the first call that failed."""
        for handle in handles:
            error = handle.exception() if handle.status == "error" else None
            if isinstance(error, FederationError):
                return error
        for handle in handles:
            if handle.status == "error":
                error = handle.exception()
                assert isinstance(error, BaseException)
                return error
        return ShardsLost.numbered(self._actors)  # cancelled: the scheduler forgot them


def _import_dask() -> Any:
    return import_extra("distributed", "compute")


def _make_shard(content: bytes) -> Shard:
    """Make a shard, at a worker."""
    return Shard(*pickle.loads(content))


def _call_shard(actor: Any, method: str, content: bytes, handles: dict[int, Any]) -> Any:
    """Call a method of a shard, at its worker."""
    arguments = pickle.loads(content)
    for place, argument in handles.items():
        arguments[place] = argument
    # the shard itself: a call by way of its actor would send arguments and result once more
    shard = _import_dask().get_worker().state.actors[actor.key]
    return getattr(shard, method)(*arguments)
