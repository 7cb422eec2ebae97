"""What a coordinator tries in order to bring a party's process down."""

from pathlib import Path

import numpy as np
import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.protocol.fates import pack_fates
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.messages import FindSplits, FinishTrees, RowMoves
from tests.hostile.test_asking_beyond_the_contract import NOTHING, _begin_trees, _start
from tests.protocol.horizontal.asking_one import pack_candidates


def test_a_search_of_trees_without_open_nodes_writes_into_no_memory(tmp_path: Path) -> None:
    """Kernels searched the rows of the nodes before, and wrote behind the end of empty results."""
    played = _begin_trees(tmp_path)
    played.ask(_start())
    played.ask(FindSplits(None, pack_candidates([[0], [0]], 2)))
    nobody = RowBits(NOTHING)
    closed = RowMoves(pack_fates(np.zeros(2, np.bool_), np.zeros(2, np.uint8)), nobody, nobody)
    with pytest.raises(RemoteProtocolError, match="no node is open"):
        played.ask(FindSplits(closed, NOTHING))
    played.ask(FinishTrees(closed))
