"""The standing alignments of a coordinator: their names, and points under the keys of two parties.

    <home>/alignments/<id>.points     the points of a version, for the next extension
    <home>/alignments/<digest>.name   which version a name means, and until when

Both are written whole or not at all. Points are there before a name means them, so that a
coordinator that is killed in between goes on with the version before.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.protocol.alignment.standing_alignment import StandingPoints
from fedforest.runtime.messages.orders import STANDARD_DAYS, AlignRows, Order, StandingName
from fedforest.runtime.messages.results import Alignment, StandingState
from fedforest.runtime.recovery.run_store import write_file

_DAY_SECONDS = 86_400.0


class StandingRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a name means."""

    version: str  # the alignment's id
    state: StandingState

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties in order; the first one meets all others."""
        return tuple(self.state.data)


class CoordinatorStandingAlignments:
    """Keeps standing alignments by name."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = home / "alignments"
        self._clock = clock
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def check(self, order: Order) -> None:
        """Refuse an order about a standing alignment that cannot be carried out."""
        if isinstance(order, AlignRows) and order.name:
            if self._find(order.name) is not None:
                raise ConfigurationError(
                    f"there is a standing alignment {order.name!r} already; extend or remove it"
                )
        elif (name := standing_name(order)) and set(self.read(name).parties) != set(order.data):
            parties = ", ".join(self.read(name).parties)
            raise ConfigurationError(
                f"the standing alignment {name!r} is of other parties: {parties}"
            )

    def read(self, name: str) -> StandingRecord:
        """Read what a name means; raises `ConfigurationError` if it means nothing, or no more."""
        record = self._find(name)
        if record is None:
            raise ConfigurationError(
                f"there is no standing alignment {name!r}, or its time is over; make one with "
                "fedforest align --name"
            )
        return record

    def data_of(self, name: str) -> Mapping[str, str]:
        """Return the data set of each party; raises `ConfigurationError` as `read` does."""
        return self.read(name).state.data

    def read_points(self, record: StandingRecord) -> StandingPoints:
        """Read the points of a version."""
        data = self._points(record.version).read_bytes()
        return msgspec.msgpack.decode(data, type=StandingPoints)

    def keep_points(self, version: str, points: StandingPoints) -> None:
        """Store the points of a version, which no name means yet."""
        write_file(self._points(version), msgspec.msgpack.encode(points))

    def publish(self, order: AlignRows, alignment: Alignment) -> Alignment:
        """Let a name mean an alignment from now on; return it with its life. May be repeated."""
        name, before = order.name or order.extends, self._find(order.name or order.extends)
        if before is None or before.version != alignment.id:
            state = self._state(order, alignment, before)
            record = StandingRecord(alignment.id, state)
            write_file(self._named(name), msgspec.msgpack.encode(record))
            if before is not None:
                self._points(before.version).unlink(missing_ok=True)
        expires = self.read(name).state.expires
        return msgspec.structs.replace(alignment, standing=name, expires=expires)

    def list(self) -> list[StandingState]:
        """List all by name."""
        return sorted((record.state for record in self._records()), key=lambda state: state.name)

    def remove(self, name: str) -> None:
        """Forget a name and its points."""
        self._points(self.read(name).version).unlink(missing_ok=True)
        self._named(name).unlink(missing_ok=True)

    def _state(
        self, order: AlignRows, alignment: Alignment, before: StandingRecord | None
    ) -> StandingState:
        if before is not None:
            return msgspec.structs.replace(
                before.state,
                n_common=alignment.n_common,
                n_extensions=before.state.n_extensions + 1,
            )
        now = self._clock()
        return StandingState(
            name=order.name,
            data=order.data,
            n_common=alignment.n_common,
            user=order.asker,
            created=now,
            expires=now + (order.days or STANDARD_DAYS) * _DAY_SECONDS,
        )

    def _find(self, name: str) -> StandingRecord | None:
        """Return what a name means; remove what has expired."""
        return {record.state.name: record for record in self._records()}.get(name)

    def _records(self) -> Iterator[StandingRecord]:
        for path in sorted(self._folder.glob("*.name")):
            record = msgspec.msgpack.decode(path.read_bytes(), type=StandingRecord)
            if record.state.expires <= self._clock():
                path.unlink(missing_ok=True)
                self._points(record.version).unlink(missing_ok=True)
            else:
                yield record

    def _points(self, version: str) -> Path:
        return self._folder / f"{version}.points"

    def _named(self, name: str) -> Path:
        digest = blake2b(name.encode(), digest_size=16).hexdigest()
        return self._folder / f"{digest}.name"


def standing_name(order: Order) -> str:
    """Return the standing alignment that an order uses or extends; empty if it does neither."""
    if isinstance(order, AlignRows):
        return order.extends
    return order.align.standing if isinstance(order.align, StandingName) else ""
