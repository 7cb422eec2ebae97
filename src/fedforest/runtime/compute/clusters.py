"""Where a party computes: in its own process, or on a cluster of its organisation.

    dask                    worker processes of this machine, one for each core
    dask:4                  so many of them
    dask:HOST:PORT          the workers of this Dask scheduler; or a URL such as tls://HOST:PORT

A cluster runs any code that it is sent. It must belong to the organisation that the rows belong to.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fedforest.errors import ConfigurationError
from fedforest.tree.growth.batches import MakeRows
from fedforest.tree.shards.sharded_rows import ShardedRows

MOST_PROCESSES = 1024
_ENGINE = "dask"


class ComputePlace(NamedTuple):
    """What a user asked for: so many processes of this machine, or those of a scheduler."""

    n_processes: int
    address: str = ""


def read_compute(text: str) -> ComputePlace:
    """Read what `compute` says; raises `ConfigurationError`."""
    engine, _, rest = text.partition(":")
    is_number = rest.isascii() and rest.isdigit()
    is_known = engine == _ENGINE and (":" in rest or is_number or text == _ENGINE)
    if not is_known or (is_number and not 1 <= int(rest) <= MOST_PROCESSES):
        raise ConfigurationError(
            f"compute is {text!r}; write 'dask' for processes of this machine, 'dask:4' for four "
            "of them, or 'dask:HOST:PORT' for the Dask scheduler of your cluster",
            key="compute",
        )
    if is_number:
        return ComputePlace(int(rest))
    return ComputePlace(len(os.sched_getaffinity(0)), rest)


@contextmanager
def opened_cluster(compute: str | None) -> Iterator[MakeRows | None]:
    """Open what `compute` names; None: tables stay in this process."""
    if compute is None:
        yield None
        return
    from fedforest.runtime.compute.dask_engine import (  # noqa: PLC0415 - an extra
        join_cluster,
        start_cluster,
    )

    place = read_compute(compute)
    opened = join_cluster(place.address) if place.address else start_cluster(place.n_processes)
    with opened as cluster:
        yield lambda table: ShardedRows(cluster.engine, table)
