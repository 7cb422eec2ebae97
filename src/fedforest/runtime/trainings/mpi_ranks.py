"""Train with every party at an MPI rank of its own: the papers' engine.

`mpiexec -n 4 fedforest mpi SCRIPT` runs the script at rank 0, the coordinator, and `serve` at all
others. When an estimator with `transport="mpi"` trains, rank 0 gives each party's columns to its
rank, leads the conversation over MPI, and takes the partial forests back. So all ranks must belong
to one user: nothing is hidden from rank 0 but by the messages of the training itself.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fedforest.errors import ConfigurationError, FederationError
from fedforest.protocol.aggregation.introduction import PartyIdentity
from fedforest.runtime.driver import ExchangeLog, run
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.federation import start_workers
from fedforest.runtime.trainings.in_process import (
    NO_SEED,
    ProcessMeans,
    TrainedHere,
    begin_conversation,
    make_work,
)
from fedforest.runtime.trainings.registry import training_of

if TYPE_CHECKING:
    from fedforest.transport.mpi import MpiJob

_LOG = logging.getLogger(__name__)
MPI = "mpi"  # the `transport` of an estimator


class PartyJob(NamedTuple):
    """What a rank needs to be a party of one training."""

    order: Any
    party: str
    columns: Any
    n_threads: int


class ReturnedWork(NamedTuple):
    """A party's work as its rank gives it back: with its partial forest alone."""

    kept: Any

    @property
    def party(self) -> "ReturnedWork":
        return self

    def model(self) -> Any:
        """Return the partial forest."""
        return self.kept


def train_over_ranks(
    order: Any, columns: Mapping[str, Any], means: ProcessMeans, log: ExchangeLog | None = None
) -> TrainedHere:
    """Carry out a request with the parties at ranks 1, 2, ..., in the order of their columns."""
    from fedforest.transport.mpi import MpiHub, open_job  # noqa: PLC0415 - MPI is an extra

    training = training_of(order)
    training.check(order)
    if order.encrypts_labels:
        raise ConfigurationError(
            "labels=Encrypted() is not offered over MPI: all ranks belong to one user", key="labels"
        )
    job, parties = open_job(), list(columns)
    _check_ranks(job, len(parties))
    n_threads = means.workers.divided(means.n_at_once).count
    for rank, party in enumerate(parties, start=1):
        job.give(rank, PartyJob(order, party, columns[party], n_threads))
    troubles = [job.take(rank) for rank in range(1, 1 + len(parties))]
    trouble = next((error for error in troubles if error is not None), None)
    for rank in range(1, 1 + len(parties)):
        job.give(rank, trouble is None)
    if trouble is not None:
        raise trouble
    hub = MpiHub(job.traffic)
    try:
        trained = run(begin_conversation(order, means), hub, log)
    finally:
        hub.close()
        shares = [job.take(rank) for rank in range(1, 1 + len(parties))]
    works = {party: ReturnedWork(share) for party, share in zip(parties, shares, strict=True)}
    return TrainedHere(trained, works)


def _check_ranks(job: "MpiJob", n_parties: int) -> None:
    start = f"start with `mpiexec -n {n_parties + 1} fedforest mpi SCRIPT`"
    if job.size == 1:
        raise ConfigurationError(f"transport='mpi' needs an MPI job; {start}", key="transport")
    if job.rank != 0:
        raise ConfigurationError(
            f"the script runs at every rank, but rank 0 alone trains; {start}", key="transport"
        )
    if job.size != n_parties + 1:
        raise ConfigurationError(
            f"{n_parties} parties need {n_parties + 1} ranks, and this job has {job.size}; {start}",
            key="transport",
        )


def serve() -> None:
    """Be a party in one training after the other, until rank 0 has run its script."""
    from fedforest.transport.mpi import open_job  # noqa: PLC0415 - MPI is an extra

    job = open_job()
    while (task := job.take(0)) is not None:
        _take_part(job, task)


def _take_part(job: "MpiJob", task: PartyJob) -> None:
    from fedforest.transport.mpi import serve_rank  # noqa: PLC0415 - MPI is an extra

    training = training_of(task.order)
    with start_workers(task.n_threads) as workers:
        work, trouble = None, None
        try:
            means = ProcessMeans(NO_SEED, workers)
            work = make_work(task.order, (task.party, task.columns), means, _no_members)
        except FederationError as error:
            trouble = error
        job.give(0, trouble)
        if not job.take(0):
            return
        assert work is not None
        serve_rank(job.traffic, task.party, make_endpoint(work.handler, training.requests))
        job.give(0, _keep(work))


def _keep(work: Any) -> Any:
    """Return the partial forest; None where training failed, which rank 0 knows by then."""
    try:
        return work.party.model()
    except (FederationError, AssertionError, AttributeError):
        _LOG.warning("no partial forest to give back: the training did not end")
        return None


def _no_members() -> Mapping[str, PartyIdentity]:
    raise ConfigurationError("parties at MPI ranks have no identities to pin", key="transport")
