"""Settings tried to explain Federated Extra-Trees' Table 2, which names none: depth and noise.

On spambase, two parties are less accurate than one table while trees may have 20 levels; on letter,
noise costs more than it does in the paper. Each is tried with more of what it lacks.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from fedforest.experiments.beside import COMPARED, Printed, apart, compare, tell_interval, tell_mean
from fedforest.experiments.experiment import Cell, Setting
from fedforest.experiments.findings import Finding
from fedforest.experiments.horizontal.curves import Curve, Series, cells_of, dealt_anew
from fedforest.experiments.horizontal.deals import TWO_PARTIES
from fedforest.experiments.horizontal.methods import (
    ForestSize,
    Method,
    federated,
    globally,
    locally,
    pooled,
)
from fedforest.experiments.record import Key, Record

SWEPT, SWEEPS = "letter", 5
SWEEP = f"{SWEPT}, less noise"
SWEPT_CAPS, SWEPT_QUERIES = (6.0, 8.0, 12.0, 20.0), (1.0, 4.0, 16.0, 64.0)
DEEPENED, DEEPENINGS = "spambase", 10
DEEPER = f"{DEEPENED}, deeper"
DEPTHS = (20, 30, 40, None)
ET, FET, FET_OF_ONE = "ET", "FET", "FET, one party"


def trials_on(name: str, size: ForestSize, setting: Setting) -> Iterator[Cell]:
    """Return the cells that explain a row of the table; none of most data sets."""
    if name == SWEPT:
        series = Series(SWEEP, name, TWO_PARTIES)
        yield from cells_of(setting, series, _sweep(size, setting), setting.times(SWEEPS, 1))
    if name == DEEPENED:
        series = Series(DEEPER, name, TWO_PARTIES)
        yield from cells_of(setting, series, _deepen(size, setting), setting.times(DEEPENINGS, 1))


def _sweep(size: ForestSize, setting: Setting) -> Curve:
    """Return noisy forests with less and less noise: the paper does not say how much it used."""
    train = partial(federated, size, n_jobs=setting.n_jobs)
    return {f"{cap:g} in all": {"FET-LDP": train(privacy=locally(cap))} for cap in SWEPT_CAPS} | {
        f"{epsilon:g} of a query": {"FET-GDP": train(privacy=globally(epsilon))}
        for epsilon in SWEPT_QUERIES
    }


def _deepen(size: ForestSize, setting: Setting) -> Curve:
    """Return forests of more and more levels, over one table, one party and two."""
    jobs = setting.n_jobs
    curve: dict[str, dict[str, Method]] = {}
    for depth in DEPTHS:
        deeper = replace(size, max_depth=depth)
        train = federated(deeper, n_jobs=jobs)
        curve[_tell(depth)] = {
            ET: pooled(deeper, jobs),
            FET_OF_ONE: dealt_anew(1, train),
            FET: train,
        }
    return curve


def _tell(depth: int | None) -> str:
    return "grown out" if depth is None else str(depth)


def table_of_noise(record: Record, printed: dict[str, Printed]) -> Finding:
    """Tell forests with less noise beside the printed values of noisy ones."""
    rows = [
        [method, point, *compare(record, (SWEEP, method, point), printed[method])]
        for method in ("FET-LDP", "FET-GDP")
        for point in record.points(SWEEP, method)
    ]
    note = "Of FET-LDP the cap of the run. Leaves of any size, 20 trees of depth 20."
    return Finding(f"{SWEPT} with less noise", ["method", "ε", *COMPARED], rows, note)


def table_of_depths(record: Record) -> Finding:
    """Tell deeper forests, and two parties beside one table."""
    rows = []
    for point in record.points(DEEPER, FET):
        keys: list[Key] = [(DEEPER, method, point) for method in (ET, FET_OF_ONE, FET)]
        less = tell_interval(apart(record, keys[2], keys[0]))
        n = str(record.n_repetitions(*keys))
        rows.append([point, *(tell_mean(record, key) for key in keys), less, n])
    header = ["greatest depth", ET, FET_OF_ONE, FET, "FET less ET", "repetitions"]
    note = "Accuracy. One party holds the same rows: there FET is extra-trees of one table."
    return Finding(f"{DEEPENED} with deeper trees", header, rows, note)


def cause_of_depth(record: Record) -> str:
    """Say what the limit on depth has to do with a gap between two parties and one table."""
    shallow, deep = record.points(DEEPER, FET)[:1], record.points(DEEPER, FET)[-1:]
    gaps = [apart(record, (DEEPER, FET, p), (DEEPER, ET, p)) for p in shallow + deep]
    of_one = [apart(record, (DEEPER, FET_OF_ONE, p), (DEEPER, ET, p)) for p in shallow]
    if len(gaps) < 2 or None in gaps or None in of_one:
        return "Deeper trees were not tried yet."
    return (
        f"The limit of {shallow[0]} levels, not the federation. With one party FET less ET is "
        f"{tell_interval(of_one[0])} on the same rows; with two, {tell_interval(gaps[0])} at depth "
        f"{shallow[0]} and {tell_interval(gaps[1])} where trees are {deep[0]}. Thresholds of two "
        "parties lie nearer to the middle of a column's range (`fet-thresholds`). Three quarters "
        "of the values here are 0 and few lie far above, so such a cut parts fewer rows from the "
        "others, and trees need more levels."
    )


def cause_of_noise(record: Record, method: str, plain: str, allowed: float) -> str:
    """Say with how much less noise a method would cost no more than what is allowed."""
    target = record.values(SWEPT, plain)
    tried = {
        point: float(values.mean())
        for point in record.points(SWEEP, method)
        if len(values := record.values(SWEEP, method, point))
    }
    if not tried or not len(target):
        return "Less noise was not tried yet."
    enough = [point for point, mean in tried.items() if mean >= target.mean() - allowed]
    told = "; ".join(f"ε {point}: {mean:.4f}" for point, mean in tried.items())
    found = f"an ε of {enough[0]} is enough" if enough else "none of them is enough"
    return (
        f"26 classes: noise hides counts of a class, of which a node has few rows. The paper names "
        f"no ε. With less noise and leaves of any size ({told}; without noise "
        f"{target.mean():.4f}), {found}."
    )
