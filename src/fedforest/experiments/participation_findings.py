"""The findings on participation: Figure 2 of k-PPD-ERT in numbers, and verdicts."""

from itertools import pairwise

from fedforest.experiments.findings import NOTHING, Finding, seconds, verdict
from fedforest.experiments.horizontal_cells import mean_of, tell_interval, tell_mean
from fedforest.experiments.horizontal_methods import FULL, SCOPES, SHARES, share_name
from fedforest.experiments.horizontal_record import HorizontalDataSetRecord
from fedforest.experiments.statistics import paired_interval

MOST_LOST_BY_SHARE = 0.015  # full and partial participation
JUDGED_SHARE = 0.4


def participation(records: list[HorizontalDataSetRecord]) -> Finding:
    """Figures 2a and 2b of k-PPD-ERT, and what stands behind 2c and 2d."""
    rows = []
    for record in records:
        for scope in SCOPES:
            for share in SHARES:
                method = share_name(scope, share)
                if record.n_repetitions(method, FULL) < 2:
                    continue
                here, everywhere = record.paired(method, FULL)
                interval = paired_interval(here, everywhere)
                is_judged = (scope, share) == ("tree", JUDGED_SHARE)
                is_close = interval.lies_within(MOST_LOST_BY_SHARE)
                rows.append(
                    [
                        record.name,
                        f"every {scope}",
                        f"{share:g}",
                        tell_mean(record, method),
                        *tell_interval(interval),
                        verdict(reached=is_close) if is_judged else NOTHING,
                        f"{mean_of(record, method, 'aggregated') / 1000:,.0f}",
                        _over_full(record, method, "aggregated"),
                        seconds(mean_of(record, method, "cpu")),
                        _over_full(record, method, "cpu"),
                        str(record.n_repetitions(method, FULL)),
                    ]
                )
    return Finding(
        "A share of ten parties at a time",
        [
            *("data set", "drawn for", "share", "accuracy", "less that of all", "95% interval"),
            *(f"within {MOST_LOST_BY_SHARE}", "thousands aggregated", "of all"),
            *("processor time", "of all", "repetitions"),
        ],
        rows,
        "Aggregated: (node, candidate) vectors that left a party, over all parties. Processor time "
        "of all parties and the coordinator, masks included. Drawn for every tree is the default; "
        "for every step is the paper's way, whose sums can be told apart by differences. Time "
        "falls less than what is aggregated: ten parties of a few hundred rows spend most of it on "
        "being asked at all, twice a level, whatever the share. Where every tree draws, nearly all "
        "parties are asked at every level, and each shares a key with nearly every other; where "
        "every step draws, the others are not asked to count, but nodes are counted whole beside "
        "the sides of their cuts. Every method trains once unmeasured before the first repetition, "
        "and every repetition begins with another method.",
    )


def _over_full(record: HorizontalDataSetRecord, method: str, quantity: str) -> str:
    return f"{mean_of(record, method, quantity) / mean_of(record, FULL, quantity):.2f}"


def falling(records: list[HorizontalDataSetRecord]) -> Finding:
    """Return whether time and aggregations fall with the share, as in Figures 2c and 2d."""
    rows = []
    for record in records:
        for scope in SCOPES:
            methods = [share_name(scope, share) for share in SHARES]
            methods = [method for method in methods if record.n_repetitions(method) >= 2]
            for quantity, title in (("aggregated", "vectors × participants"), ("cpu", "time")):
                values = [mean_of(record, method, quantity) for method in methods]
                n_falls = sum(few < more for few, more in pairwise(values))
                least, most = values[0], values[-1]
                rows.append(
                    [
                        record.name,
                        f"every {scope}",
                        title,
                        f"{n_falls} of {len(values) - 1}",
                        f"{least / most:.2f}",
                        verdict(reached=n_falls == len(values) - 1),
                    ]
                )
    return Finding(
        "With fewer parties less is aggregated",
        ["data set", "drawn for", "what", "falls", "smallest share over all", "falls throughout"],
        rows,
        "Means over the repetitions, from each share to the next smaller one.",
    )
