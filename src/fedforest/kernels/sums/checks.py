"""Whether sums that parties sent can be sums at all: one pass each, without temporary arrays."""

from fedforest.kernels.jit import kernel


@kernel
def lies_between(values, low, high):
    """Return whether no integer of a vector is below `low` or above `high`."""
    lowest, highest = high, low
    for i in range(values.shape[0]):
        lowest, highest = min(lowest, values[i]), max(highest, values[i])
    return lowest >= low and highest <= high


@kernel
def are_class_weights(sides, n_classes, limit):
    """Whether no integer of any side is negative and no side weighs more than `limit`, <= 2^52."""
    is_sound = True
    for i in range(sides.shape[0]):
        weight = 0
        for c in range(sides.shape[1]):
            is_sound &= (sides[i, c] >= 0) & (sides[i, c] <= limit)
            weight += sides[i, c] if c < n_classes else 0
        is_sound &= weight <= limit
    return is_sound
