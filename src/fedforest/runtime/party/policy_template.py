"""The policy file that a party begins with: every rule, commented out, with what it says."""

import re
from collections.abc import Iterator

TEMPLATE = """\
# What this party lets be done with its data. Read again whenever a run or a prediction begins.
# Lines that are commented out show what holds without them; docs/how-to/policy.md explains each.

[default]                         # for every data set
# use = true                      # false: only data sets that say `use = true` below
# askers = ["ann", "bob"]         # users who may ask; without this line, everybody
# asker_proof = "vouched"         # or "signed", or "pinned": by `party trust --user NAME KEY`
# protocols = ["vertical", "horizontal", "linear", "prediction"]
# columns = ["age", "city"]       # that runs may see; without this line, all but those hidden
# hidden_columns = []
# label_columns = ["risk"]        # that may be labels, and nothing else; without it, any column
# weight_columns = ["weight"]     # without it: any column, but none where labels are protected
# min_rows_per_leaf = 5
# most_trees = 10_000            # of one run
# most_row_trees = 1_000_000_000 # own rows times trees of one run; without it, any number
# most_memory_bytes = 4_000_000_000   # of this party in one run, as planned
# most_stored_bytes = 4_000_000_000   # by this party for one run, until it ends
# min_rows_per_score = 10         # held-out rows behind a score
# label_protection = "encoded"    # or "encrypted", or "randomized_response"
# largest_label_epsilon = inf     # of one run with noise on labels
# aggregations = ["plain", "masked", "ring", "shamir"]
# least_participants = 1          # of sums over parties; protected ones have 2 at least
# participation_scopes = ["tree", "run"]   # "step" lets sums be told apart party by party
# noise = ["none", "local", "global"]
# epsilon_ceiling = inf           # of all runs together, on the label of a row
# largest_lookahead = 64
# complete_model = false          # true: splits may leave for a model that predicts alone
# prediction_rows_per_day = 1_000_000         # for each asker
# prediction_rows_per_day_total = 5_000_000   # of all askers together
# alignment = true
# alignment_methods = ["keyed-hash", "psi"]
# least_aligned_ids = 10          # in the list of ids of each party
# least_common_ids = 5            # of all parties
# least_common_fraction = 0.0     # of the list of each party
# alignments_per_day = 1000       # of all data sets
# alignments_per_day_per_asker = 1000
# standing_days = 90              # that a standing alignment may live; 0: none
# standing_askers = ["anna"]      # who may make and extend one; without it, all askers
# standing_serving = "nothing"    # or "rows", or "ids": what one may be asked for by chosen rows
# validation = true               # without it: no scores under label_protection = "encrypted"
# alone = true

# [data.patients]                 # for one data set; what it does not say is as above
# min_rows_per_leaf = 20
"""

_RULE = re.compile(r"# (\w+) = (.+?)(?:\s+# (.+))?")


def explain_rules() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each rule, a value such as it may have, and what it says."""
    for line in TEMPLATE.splitlines():
        found = _RULE.fullmatch(line)
        if found is not None:
            yield found[1], found[2].strip(), found[3] or ""
