"""The bits of nodes whose rows lie in consecutive shards: joined from them, and divided again.

The bits of a node start on a whole byte, in a shard as in the whole, but the rows of a shard begin
at any bit of the node.
"""

import numpy as np

from fedforest.kernels.bits.bitsets import count_ones
from fedforest.kernels.jit import kernel


@kernel
def join_bits(parts, begins, sizes, joined):
    """Write the bits of all nodes, node by node, to `joined`, which is zero.

    Those of shard s lie in `parts` from byte begins[s] on, node by node: sizes[s, k] of node k.
    `joined` has a byte more than the bits need.
    """
    n_shards, n_nodes = sizes.shape
    at, out = begins.copy(), 0
    for k in range(n_nodes):
        n_bits = 0
        for s in range(n_shards):
            n_bytes = (sizes[s, k] + 7) >> 3
            shift, to = np.uint8(n_bits & 7), out + (n_bits >> 3)
            for i in range(n_bytes):
                byte = parts[at[s] + i]
                joined[to + i] |= byte << shift
                joined[to + i + 1] |= np.uint8(np.uint16(byte) >> np.uint16(8 - shift))
            at[s] += n_bytes
            n_bits += sizes[s, k]
        out += (n_bits + 7) >> 3


@kernel
def divide_bits(bits, offsets, nodes, sizes, begins, parts, left_rows):
    """Write to `parts` the bits of each shard's rows, as `join_bits` reads them.

    The bits of nodes[i] start at byte offsets[nodes[i]] of `bits`, behind which one more byte can
    be read; left_rows[s, i] becomes how many of shard s are set.
    """
    n_shards = sizes.shape[0]
    at = begins.copy()
    for i in range(nodes.shape[0]):
        first = np.int64(0)
        for s in range(n_shards):
            n = sizes[s, i]
            n_bytes, source = (n + 7) >> 3, offsets[nodes[i]] + (first >> 3)
            shift = np.uint16(first & 7)
            left = np.int64(0)
            for b in range(n_bytes):
                two = np.uint16(bits[source + b + 1]) << np.uint16(8)
                two |= np.uint16(bits[source + b])
                byte = np.uint8((two >> shift) & np.uint16(255))
                if b == n_bytes - 1 and n & 7:
                    byte &= np.uint8((1 << (n & 7)) - 1)
                parts[at[s] + b] = byte
                left += np.int64(count_ones(byte))
            left_rows[s, i] = left
            at[s] += n_bytes
            first += n
