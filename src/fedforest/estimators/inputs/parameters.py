"""The table of the estimators' parameters: one row each, with type, default, words and limit.

An estimator has the rows of the classes that it inherits; a row declared again replaces the one of
the same name. Rows without a limit are checked where more is known: those of trees by
`ForestParameters`, `parties` and `label_party` with the tables. A run file says a parameter under
its own name in `[parameters]` unless `run_key` says otherwise.
"""

import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from fedforest.estimators.inputs.declarations import NOT_IN_RUN_FILES, parameter
from fedforest.kernels.criteria.registry import ClassCriterion, NumberCriterion
from fedforest.kernels.layout import MAX_BINS
from fedforest.limits import (
    FRACTION,
    NOTHING,
    SWITCH,
    Limit,
    is_whole,
    made_by,
    number,
    one_of,
    whole,
)
from fedforest.privacy.encrypted_labels import Encrypted
from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.horizontal.order import Scope
from fedforest.tree.growth.parameters import FeatureCount, FeatureSampling

Voting = Literal["soft", "hard"]
Pace = Literal["auto", "one_round", "classical"]
GivenClassWeight = Mapping[Any, float] | Literal["balanced"] | None

SEED = whole(0, 2**63 - 1, "a whole number from 0 to 2^63 - 1")
RANDOM_STATE = SEED | NOTHING | made_by(np.random.RandomState, "a numpy.random.RandomState")
N_JOBS = NOTHING | Limit(
    lambda value: is_whole(value) and value != 0, ("a positive whole number", "-1 for all cores")
)
VERBOSE = Limit(
    lambda value: isinstance(value, Integral) and int(value) >= 0,
    ("0 for silence", "1 for a progress bar"),
)
TRANSPORT = Limit(
    lambda value: value is None or (isinstance(value, str) and value != ""),
    ("None for parties in this process", "the name, folder or address of a profile"),
)
COMPUTE = Limit(
    lambda value: value is None or (isinstance(value, str) and value.startswith("dask")),
    ("None for this process", "'dask', 'dask:4' or 'dask:HOST:PORT'"),
)
CLASS_WEIGHT = one_of(Literal["balanced"]) | made_by(Mapping, "a mapping") | NOTHING
PACE = one_of(Pace) | whole(1, words="a lookahead of at least 1")
LABELS = (
    one_of(Literal["encoded"])
    | made_by(RandomizedResponse, "RandomizedResponse(epsilon=...)")
    | made_by(Encrypted, "Encrypted()")
)
PRIVACY = (
    NOTHING | made_by(LocalDP, "LocalDP(epsilon=...)") | made_by(GlobalDP, "GlobalDP(epsilon=...)")
)
AGGREGATION = (
    one_of(Literal["plain"])
    | made_by(Masked, "Masked(k=...)")
    | made_by(Ring, "Ring()")
    | made_by(Shamir, "Shamir(threshold=...)")
)
AT_LEAST_0 = number("a number of at least 0", 0.0, sys.float_info.max)
POSITIVE = number("a positive number", sys.float_info.min, float("inf"))


@dataclass(eq=False, repr=False, kw_only=True)
class ProcessParameters:
    """Of every estimator: how and where it works; the model is the same."""

    n_jobs: int | None = parameter(
        None,
        "Threads that parties share; -1 for all cores.",
        N_JOBS,
        run_key=NOT_IN_RUN_FILES,
        stored=False,
    )
    verbose: int = parameter(
        0, "1 shows a progress bar.", VERBOSE, run_key=NOT_IN_RUN_FILES, stored=False
    )
    transport: str | None = parameter(
        None,
        "A profile's name or folder, or the coordinator's address, to train in a live federation: "
        "`fit` then takes a mapping of party to data set for X, and the label's column for y. "
        "None: parties live in this process. Vertical forests: 'mpi' trains with each party at a "
        "rank of `mpiexec -n 3 fedforest mpi SCRIPT`, for two parties.",
        TRANSPORT,
        run_key=NOT_IN_RUN_FILES,
        stored=False,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class ClusterParameters:
    """Of forests: where rows are while trees grow."""

    compute: str | None = parameter(
        None,
        "'dask' grows trees in processes of this machine, one for each core, 'dask:4' in four of "
        "them, 'dask:HOST:PORT' on the workers of a Dask scheduler: rows lie there in shards, and "
        "the forest is the same. For parties in this process; a live party has its own "
        "(`fedforest party start --compute`). Vertical forests only.",
        COMPUTE,
        run_key=NOT_IN_RUN_FILES,
        stored=False,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class ColumnParameters:
    """Of estimators whose parties hold different columns of the same rows."""

    label_party: str | None = parameter(
        None, "Who owns `y`; the first party by default.", run_key="[label] party"
    )
    parties: int | Mapping[str, Any] | None = parameter(
        None,
        "How one table is divided: not at all, evenly among so many, or by a mapping of party to "
        "names or positions of columns. Not used when `fit` gets a mapping of tables.",
        run_key=NOT_IN_RUN_FILES,  # its table [parties] says what `fit` gets as X
        stored=False,
    )


@dataclass(eq=False, repr=False)
class TreeParameters:
    """Of every forest; `ForestParameters` has their limits."""

    n_estimators: int = parameter(100, "Trees; at most so many where there is early stopping.")
    _: KW_ONLY
    criterion: ClassCriterion | NumberCriterion = parameter("gini", "How splits are scored.")
    max_depth: int | None = parameter(None, "Levels of splits; trees are grown out by default.")
    min_samples_split: int | float = parameter(
        2, "Rows that a node needs to be split; a float is a fraction of all rows."
    )
    min_samples_leaf: int | float = parameter(
        1,
        "Rows that each side of a split keeps; a float is a fraction of all rows. Leaves of 5 rows "
        "and more protect rows better.",
    )
    min_weight_fraction_leaf: float = parameter(
        0.0,
        "Fraction of the weight of its tree that a leaf must have, from 0 to 0.5: rows count by "
        "`sample_weight` and `class_weight`, and as often as the tree drew them; where sums are "
        "noisy, by those.",
    )
    min_impurity_decrease: float = parameter(0.0, "Splits that gain less are not made.")
    max_features: FeatureCount | int | float | None = parameter(
        "sqrt", "Columns, of all parties together, that a node may choose from; None for all."
    )
    feature_sampling: FeatureSampling = parameter(
        "node",
        "Draw the candidate columns anew at every node, or once per tree as the vertical paper "
        "does.",
    )
    bootstrap: bool = parameter(True, "Draw the rows of each tree with replacement; else without.")
    max_samples: int | float | None = parameter(
        None,
        "Rows that each tree draws; as many as there are by default, which without `bootstrap` is "
        "every row once.",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalParameters(ClusterParameters, ProcessParameters, ColumnParameters, TreeParameters):
    """Of vertical forests."""

    max_bins: int = parameter(MAX_BINS, "Bins of a numeric column.")
    oob_score: bool = parameter(
        False,
        "Let rows vote on trees that left them out: `oob_score_`, and `oob_decision_function_` or "
        "`oob_prediction_`.",
        SWITCH,
    )
    warm_start: bool = parameter(
        False,
        "Keep the trees of the last fit and grow further ones.",
        SWITCH,
        run_key=NOT_IN_RUN_FILES,
        stored=False,
    )
    early_stopping: bool = parameter(
        False,
        "Stop when the out-of-bag score has not risen by `tol` for `n_iter_no_change` trees.",
        SWITCH,
    )
    n_iter_no_change: int = parameter(
        10, "Trees without progress before training stops early.", whole(1)
    )
    tol: float = parameter(1e-4, "What counts as progress.", AT_LEAST_0)
    labels: Literal["encoded"] | RandomizedResponse | Encrypted = parameter(
        "encoded",
        "How labels are protected when they leave the label party. `Encrypted()` grows the same "
        "forest, and only the label party sees labels, gains and what leaves say.",
        LABELS,
        run_key="[label] protection",
    )
    random_state: int | np.random.RandomState | None = parameter(
        None,
        "Seed of rows and columns drawn. The noise of `RandomizedResponse` is never seeded.",
        RANDOM_STATE,
        run_key="seed",
        stored=False,
    )
    prediction: Pace | int = parameter(
        "auto",
        'Levels that one exchange settles; "one_round" settles all at once.',
        PACE,
        run_key=NOT_IN_RUN_FILES,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class HorizontalParameters(ClusterParameters, ProcessParameters, TreeParameters):
    """Of horizontal forests."""

    bootstrap: bool = parameter(
        False,
        "Draw the rows of each tree with replacement, at every party by itself; not together with "
        "`privacy`.",
    )
    max_samples: int | float | None = parameter(
        None,
        "Rows that each tree draws, of all parties together or as a fraction of each party's rows: "
        "the subset S_i of the paper, without replacement unless `bootstrap`. None for all rows.",
    )
    random_state: int | np.random.RandomState | None = parameter(
        None,
        "Seed of everything drawn, the parties' own points, masks and noise included, so that a "
        "simulation can be repeated. None draws these from the system's randomness, as every real "
        "party does.",
        RANDOM_STATE,
        run_key="seed",
        stored=False,
    )
    privacy: LocalDP | GlobalDP | None = parameter(
        None,
        "Noise on labels before they are counted, or on counts before they leave a party.",
        PRIVACY,
        run_key="[privacy]",
    )
    aggregation: Literal["plain"] | Masked | Ring | Shamir = parameter(
        "plain",
        "How counts of parties are added up: as they are, or so that only their sum is seen. The "
        "forest is the same.",
        AGGREGATION,
        run_key="[aggregation]",
    )
    participation: float = parameter(
        1.0,
        "Fraction of the parties that take part. Where they differ from tree to tree, they are "
        "drawn in blocks of `min_participants` that stay together, so that differences between "
        "trees expose blocks, not parties.",
        FRACTION,
        run_key="[participation] share",
    )
    participation_scope: Scope = parameter(
        "tree",
        'How long the parties that take part stay the same. "step", the paper\'s way, exposes '
        "single parties by differences of sums; see `leakage_`.",
        run_key="[participation] scope",
    )
    min_participants: int | None = parameter(
        None,
        "Parties with rows that must take part in every sum; with fewer, also after a party was "
        "lost, training ends with an error. By default 2 where `aggregation` protects sums, "
        "otherwise 1.",
        NOTHING | whole(1, words="a whole number of parties"),
        run_key="[participation] min_participants",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class ClassParameters:
    """Of forests for classes."""

    criterion: ClassCriterion = parameter(
        "gini", 'How splits are scored; "entropy" and "log_loss" are two names of one.'
    )
    class_weight: GivenClassWeight = parameter(
        None,
        'Weights of classes: a mapping of class to weight, or "balanced", which makes them weigh '
        "the same.",
        CLASS_WEIGHT,
    )
    voting: Voting = parameter(
        "soft", "Average class fractions, or count each tree's majority as the papers do."
    )


@dataclass(eq=False, repr=False, kw_only=True)
class HorizontalClassParameters(ClassParameters):
    """Of horizontal forests for classes."""

    class_weight: GivenClassWeight = parameter(
        None,
        'Weights of classes: a mapping of class to weight, or "balanced", which makes them weigh '
        "the same and tells how many rows each has.",
        CLASS_WEIGHT,
    )
    voting: Voting = parameter(  # a matter of prediction: the model is the same
        "soft",
        "Average class fractions, or count each tree's majority as the papers do.",
        run_key=NOT_IN_RUN_FILES,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class NumberParameters:
    """Of forests for numbers."""

    criterion: NumberCriterion = parameter(
        "squared_error",
        "How splits are scored: by squares or, for counts and rates, by the deviance of Poisson, "
        "which needs targets of at least 0 and does not go together with `privacy`.",
    )
    max_features: FeatureCount | int | float | None = parameter(
        1.0, "Columns, of all parties together, that a node may choose from; None for all."
    )


@dataclass(eq=False, repr=False, kw_only=True)
class VerticalNumberParameters(NumberParameters):
    """Of vertical forests for numbers."""

    labels: Literal["encoded"] | Encrypted = parameter(
        "encoded",
        "Parties get targets in an unknown unit, counted from an unknown origin; under "
        "`Encrypted()` only the label party sees targets, gains and what leaves say.",
        LABELS,
        run_key="[label] protection",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class HorizontalNumberParameters(NumberParameters):
    """Of horizontal forests for numbers."""

    privacy: GlobalDP | None = parameter(
        None,
        "Noise on sums of targets before they leave a party; needs declared `target_bounds`.",
        PRIVACY,
        run_key="[privacy]",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class LinearParameters(ProcessParameters, ColumnParameters):
    """Of linear models; there are no run files of them."""

    max_iter: int = parameter(
        100,
        "Most steps; each costs two exchanges for classes, or more where a step must be shortened, "
        "and one for numbers.",
        whole(1),
    )
    transport: str | None = parameter(
        None,
        "None: parties live in this process. Otherwise a federation of processes: a profile's name "
        "or folder, or the coordinator's address. `X` then names the data set of each party and "
        "`y` the column of the label, and coefficients stay with the parties: there is no "
        "`coef_`, `intercept_` or `coef_by_party_`.",
        TRANSPORT,
    )
    verbose: int = parameter(0, "Above 0, write a line for each exchange.", VERBOSE)


@dataclass(eq=False, repr=False)
class LogisticParameters(LinearParameters):
    """Of logistic regression."""

    C: float = parameter(
        1.0,
        "Inverse of the L2 penalty on the coefficients of standardised columns, as in "
        "scikit-learn.",
        POSITIVE,
    )
    _: KW_ONLY
    tol: float = parameter(
        1e-4,
        "Stop when what is left would change log-odds by this much, as the root mean square over "
        "rows weighted by their curvature.",
        AT_LEAST_0,
    )
    class_weight: GivenClassWeight = parameter(
        None, 'A mapping of class to weight, or "balanced"; as in scikit-learn.', CLASS_WEIGHT
    )


@dataclass(eq=False, repr=False)
class RidgeParameters(LinearParameters):
    """Of linear regression."""

    alpha: float = parameter(
        1.0,
        "L2 penalty on the coefficients of standardised columns, as in scikit-learn; 0 for none.",
        AT_LEAST_0,
    )
    _: KW_ONLY
    tol: float = parameter(
        1e-8,
        "Stop when what is left would change predictions by this much of the target's standard "
        "deviation, as the root mean square over rows.",
        AT_LEAST_0,
    )
