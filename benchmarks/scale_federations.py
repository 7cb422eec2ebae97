"""Trainings in live federations whose time, processor time and peak memory are taken."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.live_federation import LABEL
from benchmarks.scale_tables import Write, write_columns, write_rows
from fedforest.experiments.live.federation import LiveFederation
from fedforest.experiments.live.line import Line
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import (
    PredictVertical,
    ShowRun,
    TrainHorizontal,
    TrainVertical,
)
from fedforest.runtime.messages.results import (
    Exchanged,
    HorizontalResult,
    News,
    Predictions,
    RunDetails,
    VerticalResult,
)
from fedforest.tree.growth.parameters import ForestParameters

TABLE, SMALL = "table", "small"  # names of data sets
SMALL_ROWS = 2_000  # of a training before, which loads kernels
PAIR = ("bank", "shop")
N_COLUMNS = 10  # of each party in a vertical training


@contextmanager
def vertical(
    n_rows: int,
    *,
    n_columns: int = N_COLUMNS,
    settings: tuple[str, ...] = (),
    line: Line | None = None,
    pairs: tuple[tuple[str, str], ...] = (PAIR,),
) -> Iterator[tuple[LiveFederation, Federation]]:
    """Pairs of parties with columns of the same rows; all trained once on a small table."""
    tables = {
        party: {
            name: write_columns(rows, (n_columns, n_columns), number)
            for name, rows in ((TABLE, n_rows), (SMALL, SMALL_ROWS))
        }
        for pair in pairs
        for number, party in enumerate(pair)
    }
    with _start(tables, settings, line) as (federation, client):
        for pair in pairs:
            train(client, order_vertical(pair, ForestParameters(n_estimators=2), SMALL))
        yield federation, client


@contextmanager
def horizontal(
    n_rows: int, n_parties: int, n_columns: int
) -> Iterator[tuple[LiveFederation, Federation]]:
    """Parties with as many rows each."""
    own = n_rows // n_parties
    tables = {
        f"p{number}": {
            TABLE: write_rows(number * own, own, n_columns),
            SMALL: write_rows(number * own, SMALL_ROWS, n_columns),
        }
        for number in range(n_parties)
    }
    with _start(tables, (), None) as (federation, client):
        parameters = ForestParameters(n_estimators=2, max_depth=3, bootstrap=False)
        train(client, order_horizontal(n_parties, parameters, SMALL))
        yield federation, client


@contextmanager
def _start(
    tables: Mapping[str, Mapping[str, Write]], settings: tuple[str, ...], line: Line | None
) -> Iterator[tuple[LiveFederation, Federation]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveFederation(Path(folder), tables, line, settings=settings) as federation,
        federation.connect() as client,
    ):
        yield federation, client


def order_vertical(
    parties: tuple[str, ...], parameters: ForestParameters, table: str = TABLE, seed: int = 0
) -> TrainVertical:
    """Order a forest over the columns of these parties; the first has the label."""
    data = dict.fromkeys(parties, table)
    return TrainVertical(
        data=data, label=LABEL, label_party=parties[0], parameters=parameters, seed=seed
    )


def order_horizontal(
    n_parties: int, parameters: ForestParameters, table: str = TABLE
) -> TrainHorizontal:
    """Order extra-trees over the rows of all parties."""
    data = {f"p{number}": table for number in range(n_parties)}
    return TrainHorizontal(data=data, label=LABEL, parameters=parameters, seed=0)


def train(
    client: Federation, order: TrainVertical | TrainHorizontal
) -> tuple[float, list[Exchanged], str]:
    """Train; return the seconds of the user, the exchanges, and the model."""
    events: list[News] = []
    kind: type[Any] = VerticalResult if isinstance(order, TrainVertical) else HorizontalResult
    started = time.perf_counter()
    result = client.train(order, kind, events.append)
    wall = time.perf_counter() - started
    return wall, [event for event in events if isinstance(event, Exchanged)], result.model


def measure(
    federation: LiveFederation, client: Federation, order: TrainVertical | TrainHorizontal
) -> dict[str, Any]:
    """Train once; return time, processor time and peak memory of each process, and bytes."""
    before = {role.home.name: role.footprint() for role in federation.roles}
    wall, exchanges, model = train(client, order)
    after = {role.home.name: role.footprint() for role in federation.roles}
    return {
        "wall": wall,
        "cpu": {n: after[n].processor_seconds - before[n].processor_seconds for n in after},
        "peak_bytes": {name: each.peak_bytes for name, each in after.items()},
        "bytes_before": {name: each.resident_bytes for name, each in before.items()},
        "exchanges": len(exchanges),
        "bytes_to": _add_up(each.bytes_to for each in exchanges),
        "bytes_from": _add_up(each.bytes_from for each in exchanges),
        "model": model,
    }


def digest_votes(client: Federation, model: str) -> str:
    """Hash what a forest of the pair says about the small table."""
    order = PredictVertical(data=dict.fromkeys(PAIR, SMALL), model=model)
    return sha256(client.ask(order, Predictions).read().tobytes()).hexdigest()


def load_plan(client: Federation, run: str) -> dict[str, Any] | None:
    """Return what the coordinator planned for a run."""
    return client.ask(ShowRun(run=run), RunDetails).plan


def _add_up(counts: Iterator[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for party, n_bytes in count.items():
            total[party] = total.get(party, 0) + n_bytes
    return total
