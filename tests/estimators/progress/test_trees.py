"""What threads report is put together: it is true, it never goes back, it comes one at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fedforest.estimators.progress.trees import TreeProgress
from fedforest.tree.growth.level_loop import GrowthProgress

A, B, C = range(3), range(3, 5), range(5, 7)


def test_trees_done_add_up_and_open_nodes_and_levels_are_those_under_way() -> None:
    heard: list[GrowthProgress] = []
    progress = TreeProgress(7, heard.append)
    for report in [(A, 0, 3), (B, 0, 2), (A, 1, 6), (A, 0, 0), (C, 0, 2), (B, 0, 0), (C, 0, 0)]:
        progress.hear(*report)
    assert heard == [
        GrowthProgress(0, 7, 0, 3),
        GrowthProgress(0, 7, 0, 5),
        GrowthProgress(0, 7, 1, 8),
        GrowthProgress(3, 7, 0, 2),
        GrowthProgress(3, 7, 0, 4),
        GrowthProgress(5, 7, 0, 2),
        GrowthProgress(7, 7, 0, 0),
    ]


def test_trees_that_are_single_leaves_count_as_done() -> None:
    heard: list[GrowthProgress] = []
    TreeProgress(3, heard.append).hear(A, 0, 0)
    assert heard == [GrowthProgress(3, 3, 0, 0)]


def test_nobody_needs_to_listen() -> None:
    TreeProgress(3, None).hear(A, 0, 3)


@given(st.data(), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_progress_never_goes_back_however_blocks_take_turns(
    data: st.DataObject, levels: list[int]
) -> None:
    heard: list[GrowthProgress] = []
    progress = TreeProgress(len(levels), heard.append)
    reports = {
        range(i, i + 1): [*((level, 1) for level in range(n)), (0, 0)] for i, n in enumerate(levels)
    }
    while reports:
        trees = data.draw(st.sampled_from(sorted(reports, key=min)))
        progress.hear(trees, *reports[trees].pop(0))
        if not reports[trees]:
            del reports[trees]
    for earlier, later in pairwise(heard):
        assert (earlier.trees_done, earlier.level) <= (later.trees_done, later.level)
    assert heard[-1] == GrowthProgress(len(levels), len(levels), 0, 0)


def test_the_listener_hears_one_report_at_a_time() -> None:
    inside = threading.Semaphore(1)
    n_heard = 0

    def listen(_progress: GrowthProgress) -> None:
        nonlocal n_heard
        assert inside.acquire(blocking=False), "two threads are in the listener"
        n_heard += 1
        inside.release()

    progress = TreeProgress(8, listen)

    def report(trees: range) -> None:
        for level in range(200):
            progress.hear(trees, level, 1)

    with ThreadPoolExecutor(4) as threads:
        blocks = [range(i, i + 2) for i in range(0, 8, 2)]

        def hear(block: range) -> None:
            for level in range(200):
                progress.hear(block, level, 1)

        list(threads.map(hear, blocks))
    assert n_heard == 800
