"""A federation of real processes beside the same services in this process, to be compared."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import AnyOrder, TrainLinear, TrainVertical
from fedforest.runtime.messages.results import HorizontalResult, LinearResult, VerticalResult
from tests.integration.federation_folder import FederationFolder, make_federation, running
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.samples import AnyTraining, Tables, divide

SEEDED_COMMAND = (sys.executable, str(Path(__file__).parent / "seeded_command.py"))
SUBMIT_SECONDS = 120.0

AnyResult = VerticalResult | HorizontalResult | LinearResult


@dataclass(frozen=True, slots=True)
class Processes:
    """A federation, a user's way to it, and what its trainings must come to."""

    folder: FederationFolder
    local: LocalFederation

    @contextmanager
    def user(self) -> Iterator[Federation]:
        """Somebody who gives orders."""
        with Federation(Path(self.folder.profile), patience_seconds=SUBMIT_SECONDS) as federation:
            yield federation

    def train(self, order: AnyTraining) -> AnyResult:
        """The result of a training that nothing disturbs."""
        with self.user() as user:
            return user.train(order, result_type(order))

    def check(self, order: AnyTraining, result: AnyResult) -> None:
        """All roles hold, byte for byte, what the same run without processes leaves with them."""
        expected = self.local.ask(order, result_type(order), bytes.fromhex(result.model))
        assert msgspec.msgpack.encode(result) == msgspec.msgpack.encode(expected)
        found = role_files({role.name: role.home for role in self.folder.roles}, result.model)
        assert len(found) >= len(self.folder.parties)
        assert found == role_files(self.local.homes, result.model)


@contextmanager
def start_processes(
    folder: Path,
    tables: int | Tables,
    *,
    patience_seconds: float = 60.0,
    is_started: bool = True,
) -> Iterator[Processes]:
    """A coordinator and parties, each a process of its own; none is left in the end.

    Parties have these tables, or so many of them share those of `samples.py`.
    """
    pattern = make_federation(
        folder / "processes",
        divide(tables) if isinstance(tables, int) else tables,
        command=SEEDED_COMMAND,
        patience_seconds=patience_seconds,
    )
    with (
        local_federation(folder / "local", pattern) as local,
        running(pattern, is_started=is_started),
    ):
        yield Processes(pattern, local)


def result_type(order: AnyOrder) -> type[AnyResult]:
    """What a training ends with."""
    if isinstance(order, TrainLinear):
        return LinearResult
    return VerticalResult if isinstance(order, TrainVertical) else HorizontalResult


def role_files(homes: Mapping[str, Path], model: str) -> dict[str, bytes]:
    """Every file of a model, by role and kind."""
    return {
        f"{name}{path.suffix}": path.read_bytes()
        for name, home in homes.items()
        for path in sorted((home / "models").glob(f"{model}.*"))
    }
