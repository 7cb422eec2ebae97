"""One horizontal training with all parties in this process: the same messages as on a network."""

import warnings
from collections.abc import Mapping
from typing import Any

from fedforest.estimators.horizontal.federation import order_forest
from fedforest.estimators.horizontal.model import HorizontalModel
from fedforest.estimators.horizontal.options import HorizontalOptions
from fedforest.estimators.horizontal.tables import PartyRows, TrainingInput, read_party_rows
from fedforest.estimators.inputs.validation import count_workers, draw_seed
from fedforest.privacy.global_dp import GlobalDP
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.runtime.driver import ExchangeLog
from fedforest.runtime.federation import start_workers
from fedforest.runtime.messages.results import HorizontalResult
from fedforest.runtime.randomness import SystemRandomness
from fedforest.runtime.trainings.base import Ended
from fedforest.runtime.trainings.horizontal import HORIZONTAL, HorizontalColumns
from fedforest.runtime.trainings.in_process import ProcessMeans, train_in_process

# What an order calls the arguments of `fit`, which are no columns of a data set.
_LABEL, _WEIGHT = "y", "sample_weight"


class HorizontalTrainingHere:
    """One training whose input was passed to `fit`: read and checked when this is made."""

    def __init__(
        self, estimator: Any, options: HorizontalOptions, given: tuple[Any, Any, Any, Any]
    ) -> None:
        rows = read_party_rows(TrainingInput(*given), is_regression=options.is_regression)
        is_weighted = any(part.weights is not None for part in rows.values())
        _check_training(rows, options, is_weighted=is_weighted)
        _warn_of_moved_targets(rows, options)
        # with a seed, the parties' randomness comes from it, too
        self._seed = None if estimator.random_state is None else draw_seed(estimator.random_state)
        self._n_workers = count_workers(estimator.n_jobs)
        self.kernels = _kernels_for(options)
        self.order = order_forest(
            options,
            data={party: party for party in rows},
            label=_LABEL,
            weight=_WEIGHT if is_weighted else None,
            seed=draw_seed(self._seed),
        )
        self._columns = {
            party: HorizontalColumns(
                part.table, PartyLabels(part.labels, part.weights, options.is_regression)
            )
            for party, part in rows.items()
        }

    @property
    def is_seeded(self) -> bool:
        """Whether the parties' randomness came from the random state."""
        return self._seed is not None

    def train(self, log: ExchangeLog) -> tuple[HorizontalResult, HorizontalModel]:
        """Train; the result, and the model, which every party holds."""
        with start_workers(self._n_workers) as workers:
            means = ProcessMeans(SystemRandomness(self._seed), workers, len(self._columns))
            trained = train_in_process(self.order, self._columns, means, log).trained
        parties = tuple(self._columns)
        model = HorizontalModel(trained.forest, trained.bins, trained.classes, parties)
        return HORIZONTAL.result(self.order, trained, Ended()), model


def _kernels_for(options: HorizontalOptions) -> tuple[str, ...]:
    """Return the kinds of kernels that training with these options, and then predicting, calls."""
    kind = "horizontal numbers" if options.is_regression else "horizontal classes"
    return (kind,) if options.privacy is None else (kind, type(options.privacy).__name__)


def _check_training(
    rows: Mapping[str, PartyRows], options: HorizontalOptions, *, is_weighted: bool
) -> None:
    """Refuse, before a party is asked for anything, what cannot be trained."""
    options.check_input(len(rows), is_weighted=is_weighted)
    tables = [part.table for part in rows.values()]
    n_rows = sum(table.n_rows for table in tables)
    options.parameters.growth_rules(n_rows, tables[0].n_features)
    options.parameters.sampling(n_rows)


def _warn_of_moved_targets(rows: Mapping[str, PartyRows], options: HorizontalOptions) -> None:
    """To the caller of `fit`; how many there are is a statistic of the rows, and is not told."""
    privacy = options.privacy
    if not isinstance(privacy, GlobalDP) or privacy.target_bounds is None:
        return
    low, high = privacy.target_bounds
    if any(((part.labels < low) | (part.labels > high)).any() for part in rows.values()):
        warnings.warn(
            f"Some targets lie outside target_bounds=({low:g}, {high:g}) and are moved to the "
            "nearest bound. Declare wider bounds if they are not mistakes.",
            stacklevel=4,
        )
