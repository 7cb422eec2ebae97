"""What `compute` may say, and what is refused with it."""

import re
from typing import Any

import numpy as np
import pytest

from fedforest import (
    Encrypted,
    HorizontalExtraTreesClassifier,
    VerticalForestClassifier,
)
from fedforest.errors import ConfigurationError
from fedforest.runtime.compute.clusters import opened_cluster, read_compute

X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2


@pytest.mark.parametrize(
    ("text", "n_processes", "address"),
    [
        ("dask:4", 4, ""),
        ("dask:10.0.0.5:8786", None, "10.0.0.5:8786"),
        ("dask:tls://cluster:8786", None, "tls://cluster:8786"),
        ("dask", None, ""),
    ],
)
def test_compute_names_processes_or_a_scheduler(
    text: str, n_processes: int | None, address: str
) -> None:
    place = read_compute(text)
    assert place.address == address
    assert place.n_processes == n_processes or (n_processes is None and place.n_processes > 0)


@pytest.mark.parametrize(
    "text", ["", "ray", "dask:", "dask:0", "dask:cluster", "dask:9999", "dask4"]
)
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write 'dask' for processes") as refused:
        read_compute(text)
    assert refused.value.key == ("compute",)


def test_without_compute_rows_stay_in_this_process() -> None:
    with opened_cluster(None) as make_rows:
        assert make_rows is None


@pytest.mark.parametrize(
    ("forest", "told"),
    [
        (VerticalForestClassifier(compute="dask:0"), "write 'dask' for processes"),
        (VerticalForestClassifier(compute="ray"), "compute is 'ray'"),
        (VerticalForestClassifier(compute="dask", transport="bank"), "party start --compute"),
        (VerticalForestClassifier(compute="dask", labels=Encrypted()), "labels='encoded'"),
        (HorizontalExtraTreesClassifier(compute="dask"), "for vertical forests"),
    ],
)
def test_a_forest_that_cannot_grow_on_a_cluster_says_so_before_it_trains(
    forest: Any, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)) as refused:
        forest.fit(X, y)
    assert refused.value.key == ("compute",)
