"""All experiments, in the order of their papers; each by the name that users know it by."""

from collections.abc import Sequence

from fedforest.errors import ConfigurationError
from fedforest.experiments.experiment import Experiment
from fedforest.experiments.horizontal.epsilon_curve import EPSILON_CURVE
from fedforest.experiments.horizontal.figure_3 import FIGURE_3
from fedforest.experiments.horizontal.participation import FIGURE_2
from fedforest.experiments.horizontal.table_1 import TABLE_1
from fedforest.experiments.horizontal.table_2 import TABLE_2
from fedforest.experiments.horizontal.threshold_variance import THRESHOLD_VARIANCE
from fedforest.experiments.live.domains import FIGURE_4
from fedforest.experiments.live.mpi import MPI_EXPERIMENT
from fedforest.experiments.live.prediction_time import FIGURE_6, FIGURE_7, FIGURE_8
from fedforest.experiments.live.traffic import COMPLEXITY
from fedforest.experiments.vertical.convergence import FIGURE_5
from fedforest.experiments.vertical.tables import TABLE_3, TABLE_4

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        TABLE_3,
        TABLE_4,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_8,
        COMPLEXITY,
        MPI_EXPERIMENT,
        TABLE_2,
        FIGURE_3,
        THRESHOLD_VARIANCE,
        EPSILON_CURVE,
        TABLE_1,
        FIGURE_2,
    )
}


def choose(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names; `all` stands for every one."""
    if "all" in names:
        return list(EXPERIMENTS.values())
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ConfigurationError(
            f"there is no experiment {unknown[0]!r}; `fedforest reproduce list` names them all"
        )
    return [EXPERIMENTS[name] for name in names]
