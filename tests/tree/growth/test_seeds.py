"""Derived seeds depend on root, purpose and index, and on nothing else."""

from fedforest.tree.growth.seeds import derive_seed, derive_seeds


def test_seeds_differ_by_root_purpose_and_index() -> None:
    seeds = {
        derive_seed(root, purpose, index)
        for root in (0, 1, 2**63 - 1, 2**255)
        for purpose in ("rows", "features", "bins")
        for index in range(50)
    }
    assert len(seeds) == 4 * 3 * 50
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_a_range_of_seeds_is_part_of_every_longer_range() -> None:
    everything = derive_seeds(3, "rows", 0, 10).tolist()
    assert derive_seeds(3, "rows", 4, 7).tolist() == everything[4:7]
    assert everything[2] == derive_seed(3, "rows", 2)


def test_seeds_stay_the_same_for_ever() -> None:
    # a stored seed must grow the same forest in every release
    assert derive_seed(0, "rows", 0) == 6108223090332803186
    assert derive_seed(2**63 - 1, "features", 7) == 16482391582809159088
