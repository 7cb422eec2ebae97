"""Best split for any number of classes, by gini or entropy, with or without row weights.

With l, r the class weights on either side and |l|, |r| their sums, the score is

    gini     S(l) / |l| + S(r) / |r|        S(x) = sum of x^2
    entropy  S(l) - s(|l|) + S(r) - s(|r|)  S(x) = sum of s(x), s(x) = x log2 x in fixed point

S and s are int64, so moving a row or a bin from right to left is exact. Nodes as heavy as 2^31
would overflow: there S is a float64 sum over the classes in ascending order.

Small nodes sort their rows by bin and sweep over them, whatever the number of classes; others sweep
over a (bins, classes) histogram.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import list_candidates
from fedforest.kernels.category_order import sort_by_key
from fedforest.kernels.cuts import LEFT, RIGHT, ROWS, SCORE, WEIGHT, make_cuts, pick_cut
from fedforest.kernels.entropy import ENTROPY_UNIT, fixed_x_log2_x, x_log2_x
from fedforest.kernels.jit import inlined, kernel
from fedforest.kernels.keep import keep_categories, keep_numeric
from fedforest.kernels.layout import (
    ENTROPY,
    FEW_ROWS,
    GINI,
    MISSING_BIN,
    MULTIPLICITY_BITS,
    N_CODES,
    NO_SPLIT,
    SORTED_NODE,
    UNSEEN,
)
from fedforest.kernels.row_sort import (
    fetch_keys,
    holds_missing,
    mark_real_cuts,
    sort_rows,
    split_entries,
)

EXACT_WEIGHT = 1 << 31
IN_NODE, ON_LEFT = 0, 1  # rows of a tally: class weights of the node and left of the cut
_TABLE = 1024  # values of s(x) looked up instead of computed
_ONE = np.uint64(1)
_MULTIPLICITY = np.uint64(15)
_CLASS_SHIFT = np.uint64(MULTIPLICITY_BITS)


class ClassNode(NamedTuple):
    """What stays the same while the columns of a node are searched."""

    n_rows: int
    weight: int
    whole: int  # S of the node
    criterion: int
    min_rows_leaf: int


class Cells(NamedTuple):
    """The histogram of a node; zero between columns."""

    weight: NDArray[np.int64]  # (bins, classes)
    rows: NDArray[np.int64]


@kernel
def make_entropy_table():
    """s(x) of small numbers."""
    entropy = np.zeros(_TABLE, np.int64)
    for x in range(_TABLE):
        entropy[x] = fixed_x_log2_x(x)
    return entropy


@inlined
def part(x, criterion, entropy):
    """What one class of weight x adds to S."""
    if criterion == GINI:
        return x * x
    return entropy[x] if x < _TABLE else fixed_x_log2_x(x)


@kernel
def sum_parts(tally, criterion, entropy):
    """S of a whole node."""
    added = 0
    for c in range(tally.shape[1]):
        added += part(tally[IN_NODE, c], criterion, entropy)
    return added


@kernel
def score_heavy(tally, criterion):
    """The score of a node too heavy for exact integers, class after class in float64."""
    left_weight, right_weight = 0.0, 0.0
    left_sum, right_sum = 0.0, 0.0
    for c in range(tally.shape[1]):
        a = np.float64(tally[ON_LEFT, c])
        b = np.float64(tally[IN_NODE, c] - tally[ON_LEFT, c])
        left_weight += a
        right_weight += b
        left_sum += a * a if criterion == GINI else x_log2_x(a)
        right_sum += b * b if criterion == GINI else x_log2_x(b)
    if criterion == GINI:
        return left_sum / left_weight + right_sum / right_weight
    return left_sum - x_log2_x(left_weight) + (right_sum - x_log2_x(right_weight))


@kernel
def score_entropy(weight, both_sums, node, entropy):
    """The entropy score from exact integers."""
    both = part(weight, ENTROPY, entropy) + part(node.weight - weight, ENTROPY, entropy)
    return np.float64(both_sums - both) / ENTROPY_UNIT


@kernel
def score_gini(cuts, count, node):
    """The gini score of all cuts, in vector registers."""
    weight = np.float64(node.weight)
    for k in range(count):
        a = cuts[WEIGHT, k]
        cuts[SCORE, k] = cuts[LEFT, k] / a + cuts[RIGHT, k] / (weight - a)


@kernel
def best_class_cut(cuts, count, node):
    """(score, position) of the best of `count` cuts; gini is scored here, the rest already is."""
    if node.criterion == GINI and node.weight < EXACT_WEIGHT:
        score_gini(cuts, count, node)
    return pick_cut(cuts, count, node.n_rows, node.min_rows_leaf)


@kernel
def cut_few(keys, n, labels, weights, node, tally, entropy, order):
    """(score, bin) of the best cut of a node of so few rows that sorting by hand is fastest."""
    for i in range(n):
        slot = i
        while slot > 0 and keys[order[slot - 1]] > keys[i]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = i
    weight, left_sum, right_sum = 0, 0, node.whole
    best = NO_SPLIT
    where = 0
    for i in range(n - 1):
        at = order[i]
        gained, lost = move_left(tally, labels[at], weights[at], node.criterion, entropy)
        weight += weights[at]
        left_sum += gained
        right_sum += lost
        if keys[at] == keys[order[i + 1]]:
            continue
        if i + 1 < node.min_rows_leaf or n - i - 1 < node.min_rows_leaf:
            continue
        if node.criterion == GINI:
            score = np.float64(left_sum) / np.float64(weight) + np.float64(right_sum) / np.float64(
                node.weight - weight
            )
        else:
            score = score_entropy(weight, left_sum + right_sum, node, entropy)
        if score > best:
            best = score
            where = at
    for i in range(n):
        tally[ON_LEFT, labels[i]] = 0
    return best, keys[where]


@inlined
def move_left(tally, label, weight, criterion, entropy):
    """How S(l) and S(r) change when weight of one class moves from right to left."""
    before = tally[ON_LEFT, label]
    after = tally[IN_NODE, label] - before
    tally[ON_LEFT, label] = before + weight
    if criterion == GINI:  # (x + w)^2 - x^2
        return weight * (2 * before + weight), weight * (weight - 2 * after)
    gained = part(before + weight, criterion, entropy) - part(before, criterion, entropy)
    lost = part(after - weight, criterion, entropy) - part(after, criterion, entropy)
    return gained, lost


@kernel
def sweep_labels(order, keys, labels, weights, n, node, tally, entropy, cuts):
    """The cuts between sorted rows; one between rows of the same bin is no cut."""
    criterion = node.criterion
    weight, left_sum, right_sum = 0, 0, node.whole
    for i in range(n):
        added = weights[order[i]]
        gained, lost = move_left(tally, labels[order[i]], added, criterion, entropy)
        weight += added
        left_sum += gained
        right_sum += lost
        cuts[WEIGHT, i] = np.float64(weight)
        cuts[LEFT, i] = np.float64(left_sum)
        cuts[RIGHT, i] = np.float64(right_sum)
        if criterion == ENTROPY:
            cuts[SCORE, i] = score_entropy(weight, left_sum + right_sum, node, entropy)
    for i in range(n):
        tally[ON_LEFT, labels[i]] = 0
    mark_real_cuts(keys, n, cuts)


@kernel
def move_cells_gini(cell_weight, code, tally):
    """Move a bin from right to left; (its weight, S of the left, S of the right).

    Squares are taken of 32 bits, which vector registers can do.
    """
    weight, left_sum, right_sum = 0, 0, 0
    for c in range(tally.shape[1]):
        added = cell_weight[code, c]
        left = tally[ON_LEFT, c] + added
        right = tally[IN_NODE, c] - left
        tally[ON_LEFT, c] = left
        weight += added
        short_left, short_right = np.int64(np.int32(left)), np.int64(np.int32(right))
        left_sum += short_left * short_left
        right_sum += short_right * short_right
    return weight, left_sum, right_sum


@kernel
def move_cells_entropy(cell_weight, code, tally, entropy):
    """As `move_cells_gini`, for entropy."""
    weight, left_sum, right_sum = 0, 0, 0
    for c in range(tally.shape[1]):
        added = cell_weight[code, c]
        tally[ON_LEFT, c] += added
        weight += added
        left_sum += part(tally[ON_LEFT, c], ENTROPY, entropy)
        right_sum += part(tally[IN_NODE, c] - tally[ON_LEFT, c], ENTROPY, entropy)
    return weight, left_sum, right_sum


@kernel
def move_cells_heavy(cell_weight, code, tally):
    """Move a bin from right to left where S would overflow; returns its weight."""
    weight = 0
    for c in range(tally.shape[1]):
        tally[ON_LEFT, c] += cell_weight[code, c]
        weight += cell_weight[code, c]
    return weight


@kernel
def sweep_cells(cell_weight, cell_rows, visit, span, node, tally, entropy, cuts):
    """The cuts after the visited bins span[0]..span[1]; bins before them are on the left."""
    criterion = node.criterion
    weight, rows = 0, 0
    for position in range(span[1]):
        code = visit[position]
        if node.weight >= EXACT_WEIGHT:
            added, left_sum, right_sum = move_cells_heavy(cell_weight, code, tally), 0, 0
        elif criterion == GINI:
            added, left_sum, right_sum = move_cells_gini(cell_weight, code, tally)
        else:
            added, left_sum, right_sum = move_cells_entropy(cell_weight, code, tally, entropy)
        weight += added
        rows += cell_rows[code]
        cuts[WEIGHT, position] = np.float64(weight)
        cuts[LEFT, position] = np.float64(left_sum)
        cuts[RIGHT, position] = np.float64(right_sum)
        cuts[ROWS, position] = np.float64(rows) if position >= span[0] else 0.0
        if node.weight >= EXACT_WEIGHT:
            cuts[SCORE, position] = score_heavy(tally, criterion)
        elif criterion == ENTROPY:
            cuts[SCORE, position] = score_entropy(weight, left_sum + right_sum, node, entropy)
    tally[ON_LEFT] = 0


@kernel
def visit_occupied(cell_rows, visit):
    """List the bins that hold rows; return how many there are."""
    count = 0
    for code in range(N_CODES):
        if cell_rows[code] > 0:
            visit[count] = np.uint64(code)
            count += 1
    return count


@kernel
def sort_by_majority(cell_weight, tally, visit, count):
    """Order the visited categories by their share of the node's majority class."""
    majority = np.argmax(tally[IN_NODE])
    keys = np.zeros(N_CODES)
    for position in range(count):
        code = visit[position]
        weight = 0
        for c in range(tally.shape[1]):
            weight += cell_weight[code, c]
        keys[code] = np.float64(cell_weight[code, majority]) / np.float64(weight)
    sort_by_key(visit, keys, count)


@kernel
def offer_cells(is_categorical, feature, cells, visit, node, tally, entropy, cuts, found, k, best):
    """Search a column given by its histogram, which is emptied; keep a split that is better."""
    cell_weight, cell_rows = cells
    count = visit_occupied(cell_rows, visit)
    has_missing = visit[count - 1] == MISSING_BIN and not is_categorical
    if is_categorical:
        sort_by_majority(cell_weight, tally, visit, count)
    n_cuts = count - 1 if has_missing else count
    sweep_cells(cell_weight, cell_rows, visit, (0, n_cuts), node, tally, entropy, cuts)
    score, where = best_class_cut(cuts, n_cuts, node)
    if score > best and is_categorical:
        larger_is_left = 2.0 * cuts[ROWS, where] > node.n_rows
        best = keep_categories(found, k, feature, (score, where), visit, count, larger_is_left)
    elif score > best:
        side = 0 if has_missing else UNSEEN
        best = keep_numeric(found, k, feature, (score, visit[where], side))
    if has_missing:
        put_last_first(visit, count)
        sweep_cells(cell_weight, cell_rows, visit, (1, count), node, tally, entropy, cuts)
        score, where = best_class_cut(cuts, count, node)
        if score > best:
            best = keep_numeric(found, k, feature, (score, visit[where], 1))
    for position in range(count):
        cell_rows[visit[position]] = 0
        cell_weight[visit[position]] = 0
    return best


@kernel
def put_last_first(visit, count):
    """Turn the visited bins by one place: the missing bin comes first."""
    last = visit[count - 1]
    for position in range(count - 1, 0, -1):
        visit[position] = visit[position - 1]
    visit[0] = last


@inlined
def row_weight(code, row, weights):
    """Multiplicity times sample weight of one drawn row."""
    weight = np.int64(code & _MULTIPLICITY)
    if weights.shape[0] > 0:
        weight *= weights[row]
    return weight


@kernel
def weigh_classes(entries, span, row_bits, weights, tally):
    """Class weights of a node; returns their sum."""
    row_mask = (_ONE << row_bits) - _ONE
    tally[IN_NODE] = 0
    added = 0
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        weight = row_weight(entry >> row_bits, entry & row_mask, weights)
        tally[IN_NODE, entry >> (row_bits + _CLASS_SHIFT)] += weight
        added += weight
    return added


@kernel
def fill_cells(bins, base, entries, span, row_bits, weights, cell_weight, cell_rows):
    """Histogram, over the rows of a node, of the column that begins at `base`."""
    row_mask = (_ONE << row_bits) - _ONE
    for i in range(span[0], span[1]):
        entry = np.uint64(entries[i])
        row = entry & row_mask
        code = entry >> row_bits
        at = bins[base + row]
        cell_weight[at, code >> _CLASS_SHIFT] += row_weight(code, row, weights)
        cell_rows[at] += 1


@kernel
def find_by_classes(columns, order, targets, candidates, rules, found, first, last):
    """Best split of the nodes first..last among their candidate columns."""
    bins, n_rows, _, is_categorical = columns
    entries, row_bits, starts, stops = order
    n_classes, all_weights = targets.n_classes, targets.weights
    features = np.zeros(candidates.shape[1] * 8, np.uint64)
    width = (n_classes + 3) & ~3  # whole vector registers; the extra classes stay empty
    tally = np.zeros((2, width), np.int64)
    entropy, cuts, visit = make_entropy_table(), make_cuts(), np.zeros(N_CODES, np.uint64)
    cells = Cells(np.zeros((N_CODES, width), np.int64), np.zeros(N_CODES, np.int64))
    cell_weight, cell_rows = cells
    rows, labels = np.zeros(SORTED_NODE, np.uint64), np.zeros(SORTED_NODE, np.uint64)
    weights, counts = np.zeros(SORTED_NODE, np.int64), np.zeros(N_CODES, np.int32)
    keys, sorted_keys = np.zeros(SORTED_NODE, np.uint8), np.zeros(SORTED_NODE, np.uint8)
    sorted_rows = np.zeros(SORTED_NODE, np.int32)
    for k in range(first, last):
        span = (starts[k], stops[k])
        n = span[1] - span[0]
        weight = weigh_classes(entries, span, row_bits, all_weights, tally)
        exact = weight < EXACT_WEIGHT
        whole = sum_parts(tally, rules.criterion, entropy) if exact else 0
        node = ClassNode(n, weight, whole, rules.criterion, rules.min_rows_leaf)
        # a histogram has n_classes cells per bin to visit: sorting pays up to about that many rows
        small = exact and n < min(SORTED_NODE, max(FEW_ROWS, 16 * n_classes))
        if small:
            split_entries(entries, span, row_bits, rows, labels)
            for i in range(n):
                weights[i] = row_weight(labels[i], rows[i], all_weights)
                labels[i] >>= _CLASS_SHIFT
        best = NO_SPLIT
        found.feature[k] = -1
        for j in range(list_candidates(candidates, k, features)):
            f = features[j]
            base = f * n_rows
            if small:
                fetch_keys(bins, base, rows, n, keys)
            if not small or is_categorical[f] or holds_missing(keys, n):
                fill_cells(bins, base, entries, span, row_bits, all_weights, cell_weight, cell_rows)
                best = offer_cells(
                    is_categorical[f], f, cells, visit, node, tally, entropy, cuts, found, k, best
                )
                continue
            if n < FEW_ROWS:
                score, code = cut_few(keys, n, labels, weights, node, tally, entropy, sorted_rows)
            else:
                sort_rows(keys, n, counts, sorted_rows, sorted_keys)
                sweep_labels(
                    sorted_rows, sorted_keys, labels, weights, n, node, tally, entropy, cuts
                )
                score, where = best_class_cut(cuts, n, node)
                code = sorted_keys[where]
            if score > best:
                best = keep_numeric(found, k, f, (score, code, UNSEEN))
        found.score[k] = best
