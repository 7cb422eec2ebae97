"""What one run, and one user, may cost at a coordinator: `[limits]` in coordinator.toml.

    [limits]
    most_trees = 10_000          # of one run, those of the model it continues not counted
    most_run_seconds = 86_400    # of one run, until it is paused

    [limits.users.ada]           # other limits for one user
    most_trees = 100

Parties have limits of their own in their policies (`most_trees`). A request is refused before it is
stored, with the name of the limit.
"""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fedforest.errors import AccessRefused, ConfigurationError

if TYPE_CHECKING:  # brings numba, which commands about members can do without
    from fedforest.runtime.messages.orders import AnyRun

Count = Annotated[int, msgspec.Meta(ge=1)]


class RunLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one user's runs."""

    most_trees: Count = 10_000  # of one run
    most_row_trees: Count | None = None  # rows of all parties together, times trees
    most_memory_bytes: Count | None = None  # of the coordinator in one run, as planned
    most_stored_bytes: Count | None = None  # by the coordinator for one run: planned, and counted
    most_depth: Count | None = None  # None: trees may be grown out
    most_run_seconds: Annotated[float, msgspec.Meta(gt=0)] = 7 * 86_400.0  # of one run
    most_queued_runs: Count = 100  # each of them is on the disk

    def check(self, order: "AnyRun") -> None:
        """Refuse a run that would be larger than allowed; raises `AccessRefused`."""
        forest = getattr(order, "parameters", None)
        if forest is None:
            return
        self._hold("most_trees", forest.n_estimators, f"{forest.n_estimators} trees")
        depth = forest.max_depth
        asked = "trees that are grown out" if depth is None else f"trees of depth {depth}"
        self._hold("most_depth", float("inf") if depth is None else depth, asked)

    def check_rows(self, n_rows: int, n_trees: int) -> None:
        """Refuse a forest over too many rows for its trees."""
        asked = f"{n_trees} trees over {n_rows} rows"
        self._hold("most_row_trees", n_rows * n_trees, asked)

    def check_plan(self, memory_bytes: int, stored_bytes: int) -> None:
        """Refuse a run whose plan needs too much at the coordinator."""
        self._hold("most_memory_bytes", memory_bytes, f"about {memory_bytes} bytes of memory")
        self.check_stored(stored_bytes)

    def check_stored(self, n_bytes: int) -> None:
        """Refuse a run that stores, or would store, too much at the coordinator."""
        self._hold("most_stored_bytes", n_bytes, f"about {n_bytes} stored bytes")

    def check_queue(self, n_queued: int) -> None:
        """Refuse a further run of a user who has `n_queued` queued or running."""
        self._hold("most_queued_runs", n_queued + 1, f"{n_queued + 1} runs at a time")

    def check_time(self, seconds: float) -> None:
        """Refuse to go on with a run that took longer than allowed."""
        self._hold("most_run_seconds", seconds, f"{seconds:.0f} seconds for one run")

    def _hold(self, name: str, value: float, asked: str) -> None:
        limit = getattr(self, name)
        if limit is not None and value > limit:
            raise AccessRefused.of("limit.passed", asked=asked, limit=f"{limit:g}", setting=name)


class LimitsOfUsers(RunLimits, frozen=True, forbid_unknown_fields=True):
    """The limits of every user, other limits of some, and what all runs may take together."""

    most_runs_at_once: Count = 4  # in the whole federation
    # a party answers one request at a time, so two runs there take as long as one after the other
    most_runs_per_party: Count = 1
    most_memory_at_once: Count | None = None  # bytes, as planned; None: half the machine's memory
    users: dict[str, dict[str, Any]] = {}  # other limits of single users, by name

    def __post_init__(self) -> None:
        for user in self.users:
            self.of(user)  # a mistake is told when the coordinator starts

    def of(self, user: str) -> RunLimits:
        """Return the limits of one user."""
        general = {name: getattr(self, name) for name in RunLimits.__struct_fields__}
        own = self.users.get(user, {})
        try:
            return msgspec.convert(general | own, RunLimits)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"limits.users.{user}: {error}") from None
